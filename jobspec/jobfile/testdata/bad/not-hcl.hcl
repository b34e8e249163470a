job "a" {
  task "t" {
    command = ["true"
  }
}
