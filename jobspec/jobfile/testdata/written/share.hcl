job "light" {
  group "notebook" {
    task "main" {
      command = ["jupyter", "lab"]

      resources {
        gpus = 0.125
      }
    }
  }

  group "infer" {
    count      = 2
    depends_on = ["notebook"]

    task "main" {
      command = ["infer"]

      resources {
        gpu {
          model      = "A100*"
          share      = 0.3
          max_memory = "10GiB"
        }
      }
    }

    task "log" {
      command = ["tail"]

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
    }
  }

  group "whole" {
    depends_on = ["infer"]

    task "main" {
      command = ["train"]

      resources {
        gpus = 1
      }
    }
  }
}
