job "a" {
  preemption {
    mode = "suspend"
  }
  group "no-memory" {
    task "t" {
      command = ["true"]
      resources {
        gpu { share = 0.5 }
      }
    }
  }
  group "two" {
    task "t" {
      command = ["true"]
      resources {
        gpu {
          count      = 2
          share      = 0.5
          max_memory = "10GiB"
        }
      }
    }
  }
  group "whole" {
    task "t" {
      command = ["true"]
      resources {
        gpu { max_memory = "10GiB" }
      }
    }
  }
  group "little" {
    task "t" {
      command = ["true"]
      resources {
        gpu {
          share      = 0.5
          max_memory = "10KiB"
        }
      }
    }
  }
  group "exclusive" {
    exclusive = true
    task "t" {
      command = ["true"]
      resources {
        gpus = 0.5
      }
    }
  }
  group "tasks" {
    task "t" {
      command = ["true"]
      resources {
        gpus = 0.5
      }
    }
    task "u" {
      command = ["true"]
      resources {
        gpus = 1
      }
    }
  }
}
