job "a" {
  task "t" {
    command = ["true"]
    ulimit {
      memlock = "all"
      nofile  = 10000000
      stack   = "0B"
      core    = 5
    }
    resources {
      rdma = "some"
      gpu {
        vendor     = "amd"
        min_memory = "80"
      }
    }
  }
}
