job "a" {
  task "t" {
    command = ["true"]
    launch {
      type = "mpi"
    }
  }
}
