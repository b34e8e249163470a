# Distributed training: several nodes start together, torchrun on each, and the job goes on where it was after it was stopped.
variable "nodes" {
  type    = number
  default = 2

  validation {
    condition     = var.nodes >= 1 && var.nodes <= 64
    error_message = "nodes must be between 1 and 64."
  }
}

locals {
  checkpoints = "/shared/checkpoints/ddp"
}

job "ddp" {
  time_limit = "3d"

  # The program saves when it gets the signal, and at intervals; exit code 85 says that it has.
  checkpoint {
    path     = local.checkpoints
    interval = "30m"
  }

  preemption {
    signal       = "SIGUSR1"
    grace_period = "5m"
  }

  # A program that fails is started again, on other nodes.
  restart {
    attempts = 3
  }

  log_policy "ecc" {
    pattern = "uncorrectable ECC error"
    action  = "exclude_node"
  }

  group "workers" {
    count = var.nodes

    task "train" {
      command = ["train.py", "--checkpoints", local.checkpoints, "--resume", "auto"]

      launch {
        type  = "torchrun"
        nproc = "gpu"
      }

      env {
        OMP_NUM_THREADS = 8
      }

      resources {
        cores  = 64
        memory = "512GiB"
        gpus   = 8
      }

      progress {
        metric = "loss"
        goal   = "min"
      }
    }
  }
}
