# Training with one to four workers: it starts with one, grows into room that nobody else wants, and makes room when somebody does.
#
# Whenever their number changes all workers are asked to save, and are started again as many as they are then. The trainer's loss has the same
# bits with any number of workers, so nobody can tell from the result how often that happened.

variable "dir" {
  type        = string
  description = "Where the checkpoint goes: a directory that every node sees and you may write to."
}

variable "steps" {
  type    = number
  default = 200
}

job "elastic" {
  time_limit = "30m"

  preemption {
    grace_period = "10s"
  }

  checkpoint {
    path = var.dir
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
      command = ["bin/trainer", "-steps", var.steps, "-compute", "200ms", "-dir", var.dir]

      resources {
        cores  = 1
        memory = "256MiB"
        gpus   = 1
      }
    }
  }
}
