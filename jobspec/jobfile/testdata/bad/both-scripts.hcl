job "a" {
  task "t" {
    script      = "true"
    script_file = "run.sh"
  }
}
