job "a" {
  task "t" {
    command = [""]
  }
}
