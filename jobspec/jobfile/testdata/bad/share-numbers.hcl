job "a" {
  group "more" {
    task "t" {
      command = ["true"]
      resources {
        gpus = 1.5
      }
    }
  }
  group "above" {
    task "t" {
      command = ["true"]
      resources {
        gpu {
          share      = 2
          max_memory = "10GiB"
        }
      }
    }
  }
  group "none" {
    task "t" {
      command = ["true"]
      resources {
        gpu {
          share      = 0
          max_memory = "10GiB"
        }
      }
    }
  }
  group "negative" {
    task "t" {
      command = ["true"]
      resources {
        gpus = -0.5
      }
    }
  }
  group "fine" {
    task "t" {
      command = ["true"]
      resources {
        gpus = 0.3333
      }
    }
  }
  group "word" {
    task "t" {
      command = ["true"]
      resources {
        gpus = "half"
      }
    }
  }
}
