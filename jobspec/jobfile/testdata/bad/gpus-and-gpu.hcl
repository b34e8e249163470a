job "a" {
  task "t" {
    command = ["true"]
    resources {
      gpus = 2
      gpu { count = 4 }
    }
  }
}
