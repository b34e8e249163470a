job "a" {
  time_limit = "1y"
  checkpoint { interval = "1500ms" }
  restart {
    delay     = "0s"
    max_delay = "9999w"
  }
  task "t" {
    command      = ["true"]
    kill_timeout = "-1s"
    resources {
      memory = "64gib"
      shm    = "9999TiB"
      tmp    = "half"
    }
  }
}
