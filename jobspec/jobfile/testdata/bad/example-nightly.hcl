# 5. Pipeline: prep (CPU) -> train (gang) + tensorboard sidecar -> eval -> notify on failure.
job "nightly" {
  class   = "be"
  account = "vision"

  dependency {
    type = "singleton"
  }

  group "prep" {
    time_limit = "1h"
    task "shard" {
      script = <<-EOT
        set -euo pipefail
        python shard.py --in /data/raw --out /data/shards
      EOT
      resources {
        cores  = 32
        memory = "128GiB"
      }
    }
  }

  group "train" {
    count      = 2
    depends_on = ["prep"]
    time_limit = "8h"

    task "train" {
      image   = "registry.local/vision/train:9"
      command = ["train.py", "--data", "/data/shards"]
      launch {
        type  = "torchrun"
        nproc = 8
      }
      resources {
        cores  = 64
        memory = "512GiB"
        gpus   = 8
      }
    }

    task "tensorboard" {
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      image   = "tensorflow/tensorflow:2.19.0"
      command = ["tensorboard", "--logdir", "/logs", "--bind_all"]
      resources {
        cores  = 1
        memory = "2GiB"
      }
    }
  }

  group "eval" {
    depends_on = ["train:ok"]
    time_limit = "1h"
    task "eval" {
      image   = "registry.local/vision/train:9"
      command = ["python", "eval.py"]
      resources {
        cores  = 8
        memory = "64GiB"
        gpus   = 1
      }
    }
  }

  group "triage" {
    depends_on = ["train:failed"]
    task "collect" {
      script = "collect-logs --job \"$ROTA_JOB_ID\" --out /shared/triage"
      resources {
        cores  = 1
        memory = "1GiB"
      }
    }
  }

  notify {
    on      = ["fail", "end"]
    webhook = "https://hooks.internal/vision"
  }
}
