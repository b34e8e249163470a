job "a" {
  task "t" {
    command = ["true"]
    launch {
      nproc        = 4
      max_restarts = 3
    }
  }
}
