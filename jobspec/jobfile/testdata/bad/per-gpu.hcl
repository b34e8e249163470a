job "a" {
  task "t" {
    command = ["true"]
    launch {
      type  = "per_gpu"
      nproc = 4
    }
  }
}
