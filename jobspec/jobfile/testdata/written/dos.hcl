job "dos" {
  time_limit = "1m30s"

  task "t" {
    command = ["true"]
  }
}
