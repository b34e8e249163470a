job "a" {
  priority = 9223372036854775808

  array {
    indices      = "0-3"
    max_parallel = -1e308

    stop {
      metric  = "loss"
      at_step = 0
      keep    = "top 1"
    }
  }

  task "t" {
    command = ["x"]

    launch {
      type  = "slurm"
      nproc = 1e308
    }

    resources {
      cores = 4294967296
      gpus  = pow(10, 308)
    }

    progress {
      total = 300000000000 # as many as a program may count
    }

    ulimit {
      nofile = 1e16
    }
  }
}
