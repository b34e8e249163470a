# One program on one GPU.
job "single" {
  time_limit = "4h"

  task "main" {
    command = ["python", "train.py"]

    resources {
      cores  = 8
      memory = "64GiB"
      gpus   = 1
    }
  }
}
