job "dos" {
  time_limit = "90s"
  task "t" {
    command = ["true"]
  }
}
