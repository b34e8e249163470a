job "try-lr" {
  class      = "te"
  time_limit = "1h"

  task "train" {
    command = ["python", "train.py", "--lr", "3e-4", "--steps", "500"]

    resources {
      cores  = 8
      memory = "64GiB"
      gpus   = 1
    }
  }
}
