# One worker on one GPU, with checkpoints: the first job to try.
#
#   bin/rota submit --follow examples/train.hcl                        where "bin/rota dev --sim-gpus 4" runs
#   bin/rota submit --follow -var dir=/shared/me examples/train.hcl    on a cluster

variable "dir" {
  type        = string
  default     = ""
  description = "Where the checkpoint goes: a directory that every node sees and you may write to. The default is a new one below the directory of rota dev."
}

variable "steps" {
  type    = number
  default = 100
}

job "train" {
  time_limit = "10m"

  checkpoint {
    path     = var.dir == "" ? ".rota/shared" : var.dir
    interval = "10s"
  }

  task "train" {
    command = ["bin/trainer", "-steps", var.steps, "-pause", "50ms", "-dir", var.dir == "" ? ".rota/shared/train-${job.id}" : var.dir]

    resources {
      cores  = 1
      memory = "256MiB"
      gpus   = 1
    }
  }
}
