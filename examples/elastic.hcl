# Training with one to four workers: it starts with one, grows into idle room, and makes room for other jobs.
#
# Whenever their number changes all workers are asked to save, and are started again as many as they are then. The trainer's loss has the same
# bits with any number of workers, so the result does not show how often that happened.

variable "dir" {
  type        = string
  default     = ""
  description = "Where the checkpoint goes: a directory that every node sees and you may write to. The default is a new one below the directory of rota dev."
}

variable "steps" {
  type    = number
  default = 100
}

job "elastic" {
  time_limit = "30m"

  preemption {
    grace_period = "10s"
  }

  checkpoint {
    path = var.dir == "" ? ".rota/shared" : var.dir
  }

  group "workers" {
    max_workers_per_node = 4

    elastic {
      min        = 1
      max        = 4
      cooldown   = "10s"
      grow_after = "5s"
    }

    task "train" {
      command = ["bin/trainer", "-steps", var.steps, "-compute", "100ms", "-dir", var.dir == "" ? ".rota/shared/elastic-${job.id}" : var.dir]

      resources {
        cores  = 1
        memory = "256MiB"
        gpus   = 1
      }
    }
  }
}
