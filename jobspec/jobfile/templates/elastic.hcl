# A job that is to grow and shrink with what is free, and runs with a fixed number of workers until elastic jobs are supported.
job "elastic" {
  class      = "be"
  time_limit = "12h"

  preemption {
    grace_period = "60s"
  }

  # The program saves here when it is asked to stop, and goes on from there with any number of workers.
  checkpoint {
    path     = "/shared/elastic"
    interval = "10m"
  }

  group "workers" {
    # elastic { min = 2, max = 8 } takes the place of count once it is supported: "rota explain elastic".
    count = 2

    task "train" {
      launch {
        type  = "torchrun"
        nproc = "gpu"
      }

      command = ["train.py", "--resume", "auto", "--ckpt-dir", "/shared/elastic"]

      resources {
        cores  = 8
        memory = "64GiB"
        gpus   = 4
      }
    }
  }
}
