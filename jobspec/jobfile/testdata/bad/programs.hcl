job "a" {
  task "t" {
    command = ["true"]
    script  = "true"
  }
}
