# Data-parallel training on two workers, each on its own node, started together or not at all.

variable "dir" {
  type        = string
  description = "Where the checkpoint goes: a directory that every node sees and you may write to."
}

variable "workers" {
  type    = number
  default = 2

  validation {
    condition     = var.workers >= 1 && var.workers <= 8
    error_message = "The trainer cuts a batch into 8 shards, so it has work for 1 to 8 workers."
  }
}

variable "steps" {
  type    = number
  default = 200
}

job "gang" {
  time_limit = "30m"

  checkpoint {
    path = var.dir
  }

  restart {
    attempts = 1
    delay    = "5s"
  }

  group "workers" {
    count                = var.workers
    max_workers_per_node = 1

    task "train" {
      command = ["bin/trainer", "-steps", var.steps, "-pause", "50ms", "-dir", var.dir]

      resources {
        cores  = 1
        memory = "256MiB"
        gpus   = 1
      }
    }
  }
}
