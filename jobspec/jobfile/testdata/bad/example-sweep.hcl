# 4. Hyper-parameter sweep: 3 x 4 = 12 elements, at most 4 at once,
#    two elements may share one GPU.
job "sweep" {
  class      = "be"
  time_limit = "2h"

  array {
    matrix = {
      lr   = ["1e-3", "3e-4", "1e-4"]
      seed = [1, 2, 3, 4]
    }
    max_parallel = 4
    max_failures = 3
  }

  task "trial" {
    image   = "registry.local/vision/resnet:3"
    command = ["python", "trial.py", "--lr", array.lr, "--seed", array.seed]

    env {
      RUN_NAME = "sweep-${array.index}-lr${array.lr}"
    }

    resources {
      cores  = 4
      memory = "32GiB"

      gpu {
        count      = 1
        share      = 0.5
        max_memory = "20GiB"
      }
    }

    log {
      stdout = "logs/%A_%a.out"
    }
  }
}
