job "a" {
  restart {
    delay            = "5m"
    max_delay        = "1m"
    retry_on_exit    = [1, 2]
    no_retry_on_exit = [2, 3]
  }
  task "t" {
    script = "true"
    leader = false
    env {
      ROTA_JOB_ID = 1
    }
    mount {
      type   = "tmpfs"
      source = "/a"
      target = "/b"
    }
    log {
      stderr = "/shared/err"
      join   = true
    }
    launch {
      type  = "torchrun"
      nproc = "gpu"
    }
    resources {
      memory = "1GiB"
      shm    = "2GiB"
      tmp    = "3GiB"
    }
  }
}
