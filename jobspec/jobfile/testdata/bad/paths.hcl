job "a" {
  workdir = "work"
  task "t" {
    command = ["true"]
    image   = "nvcr.io/nvidia/pytorch:26.08-py3"
    mount {
      source = "shared"
      target = "/proc/x"
    }
    mount {
      source = "/shared/a"
      target = "/data"
    }
    mount {
      source = "/shared/b"
      target = "/data/"
    }
    mount {
      type   = "volume"
      source = "/shared"
      target = "/"
    }
    log { stdout = "/shared/%q.out" }
  }
}
