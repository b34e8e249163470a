# Shards are made, a gang trains on them with a viewer beside it, and what happened is looked at afterwards.
job "nightly" {
  account               = "vision"
  on_dependency_failure = "hold"
  time_limit            = "12h"

  dependency {
    type = "singleton"
  }
  dependency {
    type  = "afterok"
    jobs  = [41, "42_7", "fetch"]
    delay = "5m"
    match = "any"
  }
  log_policy "ecc" {
    pattern = "uncorrectable ECC error"
    action  = "exclude_node"
  }
  log_policy "oom" {
    pattern = "CUDA out of memory"
    action  = "fail"
    stream  = "stderr"
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
    count             = 2
    depends_on        = ["prep"]
    time_limit        = "8h"
    exclusive         = true
    success           = "all"
    on_worker_failure = "ignore"

    restart {
      attempts = 2
    }
    network {
      mode = "host"
    }

    task "warm" {
      lifecycle {
        hook = "prestart"
      }
      command = ["cp", "-r", "/data/shards", "/tmp"]
    }
    task "train" {
      command = ["train.py", "--data", "/tmp/shards"]
      launch {
        type  = "torchrun"
        nproc = "gpu"
      }
      resources {
        cores  = 64
        memory = "512GiB"
        rdma   = "all"
        gpu {
          count      = 8
          model      = "H100*"
          min_memory = "80GiB"
        }
      }
      ulimit {
        memlock = "unlimited"
        nofile  = 65536
        stack   = "64MiB"
        core    = "1GiB"
      }
      secret "token" {
        source = "/home/ada/.token"
      }
      secret "key" {
        source = "/home/ada/.key"
        file   = "/run/rota/secrets/id"
      }
      progress {
        file = "progress.jsonl"
      }
    }
    task "tensorboard" {
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      command = ["tensorboard", "--logdir", "/logs", "--bind_all"]
      resources {
        memory = "2GiB"
      }
    }
  }

  group "eval" {
    depends_on            = ["train:ok", "prep:started"]
    count                 = 4
    max_workers_per_node  = 2
    task "eval" {
      command = ["python", "eval.py"]
    }
  }
  group "triage" {
    depends_on = ["train:failed"]
    task "collect" {
      script = "collect-logs --job \"$ROTA_JOB_ID\" --out /shared/triage"
    }
  }
}
