job "full" {
  class        = "be"
  queue        = "train"
  account      = "nlp"
  priority     = 70
  time_limit   = "3d12h"
  hold         = true
  on_node_lost = "wait"
  workdir      = "/shared/work"
  export       = ["WANDB_*", "HF_HOME"]
  description  = "from from the auto file"
  comment      = "rule all"
  tags         = ["llm", "b7"]

  meta {
    seven = "7"
    team  = "nlp"
    yes   = "true"
  }

  restart {
    attempts         = 3
    delay            = "10s"
    backoff          = "constant"
    max_delay        = "2m"
    window           = "2d12h"
    exclude_node     = false
    retry_on_exit    = [1, 3]
    no_retry_on_exit = [2]
  }

  checkpoint {
    path         = "/shared/ckpt/llama-B"
    interval     = "1h30m"
    exit_code    = 42
    before_limit = "10m"
  }

  preemption {
    signal       = "SIGUSR2"
    grace_period = "5m"
    requeue      = true
    signal_to    = "script"
  }

  group "workers" {
    count = 2

    meta {
      a = "1"
    }

    task "train" {
      image        = "/images/train"
      command      = ["train.py", "--dir", "/shared/ckpt/llama-B", "a-llama-B", "b-llama-B"]
      user         = "alice"
      kill_signal  = "SIGINT"
      kill_timeout = "1m"

      launch {
        type         = "torchrun"
        nproc        = "gpu"
        max_restarts = 2
        port         = 29500
        rdzv         = "c10d"
      }

      env {
        ALLOWED         = "yes"
        BYTES           = "1536"
        DEBUG           = "false"
        FORMAT          = "00042-x"
        GREETING        = "hello"
        JSON            = "{\"a\":[1,2],\"b\":\"x\"}"
        OMP_NUM_THREADS = "8"
        SECONDS         = "5400"
        SHELL_HOME      = "$${HOME}/x and $${HOME:-y} and $HOME"
        WHEN            = "2026-01-02T03:04:05Z"
      }

      resources {
        cores  = 96
        memory = "900GiB"
        shm    = "64GiB"
        tmp    = "512GiB"
        gpus   = 8
      }

      mount {
        source    = "/shared/data"
        target    = "/data"
        read_only = true
      }

      mount {
        target = "/scratch"
        type   = "tmpfs"
      }

      log {
        stdout   = "/shared/logs/%x-%4j-%r.%n.out"
        stderr   = "/shared/logs/%x-%j-%r.%n.err"
        mode     = "truncate"
        max_size = "10MiB"
        keep     = 0
      }

      progress {
        metric = "loss"
        goal   = "min"
        total  = 1000
      }
    }
  }
}
