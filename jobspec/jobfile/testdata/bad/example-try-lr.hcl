# 1. Trial-and-error job: one GPU, one hour, starts within seconds.
job "try-lr" {
  class      = "te"
  time_limit = "1h"

  task "train" {
    image   = "nvcr.io/nvidia/pytorch:26.08-py3"
    command = ["python", "train.py", "--lr", "3e-4", "--steps", "500"]

    resources {
      cores  = 8
      memory = "64GiB"
      gpus   = 1
    }
  }
}
