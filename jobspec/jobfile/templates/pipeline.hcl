# Steps that follow each other: data is prepared, a model trained with a viewer beside it, and the result judged or the failure looked at.
job "pipeline" {
  time_limit = "12h"

  group "prepare" {
    time_limit = "1h"

    task "shard" {
      command = ["python", "shard.py", "--in", "/shared/raw", "--out", "/shared/shards"]

      resources {
        cores  = 16
        memory = "64GiB"
      }
    }
  }

  group "train" {
    depends_on = ["prepare"]
    count      = 2

    task "train" {
      command = ["train.py", "--data", "/shared/shards"]

      launch {
        type  = "torchrun"
        nproc = "gpu"
      }

      resources {
        cores  = 32
        memory = "256GiB"
        gpus   = 4
      }
    }

    task "viewer" {
      command = ["tensorboard", "--logdir", "/shared/logs", "--bind_all"]

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      resources {
        memory = "2GiB"
      }
    }
  }

  group "judge" {
    depends_on = ["train:ok"]
    time_limit = "1h"

    task "eval" {
      command = ["python", "eval.py"]

      resources {
        gpus = 1
      }
    }
  }

  group "look" {
    depends_on = ["train:failed"]
    time_limit = "10m"

    task "collect" {
      script = "tar -czf \"/shared/failed-$ROTA_JOB_ID.tar.gz\" /shared/logs"
    }
  }
}
