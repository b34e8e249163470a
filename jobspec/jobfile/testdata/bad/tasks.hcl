job "a" {
  group "side" {
    task "only" {
      command = ["true"]
      lifecycle { hook = "prestart" }
    }
  }
  group "leaders" {
    task "one" {
      command = ["true"]
      leader  = true
      launch { type = "slurm" }
    }
    task "two" {
      command = ["true"]
      leader  = true
      launch { type = "torchrun" }
    }
    task "three" {
      command = ["true"]
      leader  = true
      lifecycle {
        hook    = "poststop"
        sidecar = true
      }
      launch { type = "slurm" }
    }
    task "four" {
      command = ["true"]
      lifecycle { hook = "before" }
    }
  }
  group "followers" {
    task "one" {
      command = ["true"]
      leader  = false
    }
    task "two" {
      command = ["true"]
      leader  = false
      resources { gpus = 40 }
    }
    task "three" {
      command = ["true"]
      leader  = false
      resources { gpus = 40 }
    }
  }
}
