# A job with 2 to 8 workers: it grows into room that nobody else wants, and makes room when somebody does.
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
    # All workers are stopped and started again when their number changes.
    elastic {
      min = 2
      max = 8
    }

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
