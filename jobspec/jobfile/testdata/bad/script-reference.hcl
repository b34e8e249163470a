job "a" {
  array { indices = "0-3" }
  task "t" {
    script_file = "${array.index}.sh"
  }
}
