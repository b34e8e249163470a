job "a" {
  time_limit = 30
  task "t" {
    command      = ["true"]
    kill_timeout = "45"
    resources {
      memory = 64
      shm    = "1024"
    }
  }
}
