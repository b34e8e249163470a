# 3. Elastic job: runs with 2..8 workers, grows when GPUs idle,
#    shrinks first when a TE job needs room.
job "resnet-elastic" {
  class      = "be"
  time_limit = "12h"

  preemption {
    mode         = "shrink"
    grace_period = "60s"
  }

  group "workers" {
    elastic {
      min         = 2
      max         = 8
      multiple_of = 2
      resize      = "restart"
      cooldown    = "5m"
    }

    task "train" {
      image   = "registry.local/vision/resnet:3"
      command = ["train_imagenet.py", "--resume", "auto"]

      launch {
        type         = "torchrun"
        nproc        = 4
        max_restarts = 100
      }

      resources {
        cores  = 32
        memory = "256GiB"
        gpus   = 4
      }

      progress {
        file   = "progress.jsonl"
        metric = "loss"
        goal   = "min"
      }
    }
  }
}
