# Everything that a job can say.
# -var nodes=2
# -var-file testdata/values.rotavars

variable "nodes" {
  type        = number
  default     = 4
  description = "how many workers"
  validation {
    condition     = var.nodes >= 1 && var.nodes <= 16
    error_message = "nodes must be between 1 and 16, not ${var.nodes}."
  }
}
variable "names" {
  type    = list(string)
  default = []
}
variable "from_env" {
  type = number
}
variable "auto" {
  type = string
}
variable "untyped" {
  default = { a = [1, 2], b = "x" }
}

locals {
  ckpt  = "/shared/ckpt/${local.model}"
  model = "llama-${upper("b")}"
  list  = [for n in var.names : "${n}-${local.model}"]
}

job "full" {
  class       = "be"
  queue       = "train"
  account     = "nlp"
  priority    = 70
  time_limit  = "3-12:00:00"
  hold        = true
  on_node_lost = "wait"
  workdir     = "/shared/work"
  description = "from ${var.auto}"
  comment     = "rule all"
  tags        = ["llm", "b${var.from_env}"]
  export      = ["WANDB_*", "HF_HOME"]

  meta {
    team  = "nlp"
    seven = var.from_env
    yes   = true
  }
  preemption {
    signal       = "SIGUSR2"
    grace_period = "5m"
    requeue      = true
    signal_to    = "script"
  }
  checkpoint {
    path      = local.ckpt
    interval  = "1h30m"
    exit_code = 42

    before_limit = "10m"
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
  group "workers" {
    count                = var.nodes
    gang                 = true
    max_workers_per_node = 1
    meta {
      a = 1
    }
    task "train" {
      command      = concat(["train.py", "--dir", local.ckpt], local.list)
      user         = "alice"
      leader       = true
      image        = "/images/train"
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
        OMP_NUM_THREADS = 8
        DEBUG           = false
        WHEN            = timestamp()
        ALLOWED         = env("ALLOWED")
        GREETING        = file("greeting.txt")
        SECONDS         = duration("1h30m")
        BYTES           = size("1.5KiB")
        SHELL_HOME      = "${HOME}/x and $${HOME:-y} and $HOME"
        JSON            = jsonencode(var.untyped)
        FORMAT          = format("%05d-%s", 42, "x")
      }
      resources {
        cores  = 96
        memory = "900GiB"
        shm    = "64G"
        tmp    = "0.5TiB"
        gpu {
          count  = 8
          vendor = "nvidia"
        }
      }
      mount {
        source    = "/shared/data"
        target    = "/data"
        read_only = true
      }
      mount {
        type   = "tmpfs"
        target = "/scratch"
      }
      log {
        stdout   = "/shared/logs/%x-%4j-%r.%n.out"
        stderr   = "/shared/logs/%x-%j-%r.%n.err"
        join     = false
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
