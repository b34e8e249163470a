# 2. Best-effort distributed training: gang of 4 nodes x 8 GPUs,
#    checkpoint on preemption with a 5-minute grace period.
variable "image" {
  type    = string
  default = "registry.local/llm/train:1.4"
}

variable "nodes" {
  type    = number
  default = 4
  validation {
    condition     = var.nodes >= 1 && var.nodes <= 16
    error_message = "nodes must be between 1 and 16."
  }
}

locals {
  ckpt = "/shared/ckpt/llama-7b"
}

job "llama-7b" {
  class      = "be"
  queue      = "train"
  account    = "nlp"
  priority   = 50
  time_limit = "3d"

  preemption {
    mode         = "checkpoint"
    signal       = "SIGUSR1"
    grace_period = "5m"
    max          = 2
    min_runtime  = "15m"
  }

  checkpoint {
    path      = local.ckpt
    interval  = "30m"
    exit_code = 85
  }

  restart {
    attempts         = 3
    delay            = "30s"
    exclude_node     = true
    no_retry_on_exit = [2, 64]
  }

  log_policy "ecc" {
    pattern = "uncorrectable ECC error"
    action  = "exclude_node"
  }

  log_policy "cuda-oom" {
    pattern = "CUDA out of memory"
    action  = "fail"
  }

  hang {
    gpu_util_below = 5
    window         = "20m"
    action         = "restart"
  }

  group "workers" {
    count = var.nodes
    gang  = true

    topology {
      require = "fabric"
      prefer  = "rack"
    }

    task "train" {
      image = var.image

      launch {
        type  = "torchrun"
        nproc = 8
      }

      command = ["train.py", "--ckpt-dir", local.ckpt, "--resume", "auto"]

      env {
        NCCL_DEBUG = "WARN"
        OMP_NUM_THREADS = 8
      }

      resources {
        cores  = 96
        memory = "900GiB"
        shm    = "64GiB"

        gpu {
          count      = 8
          model      = "H100*"
          min_memory = "80GiB"
          nvlink     = "full"
        }

        rdma = "all"
      }

      mount {
        source = "/shared"
        target = "/shared"
      }

      log {
        stdout = "/shared/logs/%x-%j-%r.%n.out"
        mode   = "append"
      }
    }
  }
}
