# Data-parallel training on two workers, started together or not at all. With -var per_node=1 each has a node of its own.

variable "dir" {
  type        = string
  default     = ""
  description = "Where the checkpoint goes: a directory that every node sees and you may write to. The default is a new one below the directory of rota dev."
}

variable "workers" {
  type    = number
  default = 2

  validation {
    condition     = var.workers >= 1 && var.workers <= 8
    error_message = "The trainer cuts a batch into 8 shards, so it has work for 1 to 8 workers."
  }
}

variable "per_node" {
  type        = number
  default     = 8
  description = "How many workers may share a node."
}

variable "steps" {
  type    = number
  default = 100
}

job "gang" {
  time_limit = "30m"

  checkpoint {
    path = var.dir == "" ? ".rota/shared" : var.dir
  }

  restart {
    attempts = 1
    delay    = "5s"
  }

  group "workers" {
    count                = var.workers
    max_workers_per_node = var.per_node

    task "train" {
      command = ["bin/trainer", "-steps", var.steps, "-pause", "50ms", "-dir", var.dir == "" ? ".rota/shared/gang-${job.id}" : var.dir]

      resources {
        cores  = 1
        memory = "256MiB"
        gpus   = 1
      }
    }
  }
}
