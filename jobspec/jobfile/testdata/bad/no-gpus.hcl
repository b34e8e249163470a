job "a" {
  task "t" {
    command = ["true"]
    launch {
      type  = "slurm"
      nproc = "gpu"
    }
  }
}
