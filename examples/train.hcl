# One worker on one GPU, with checkpoints: the first job to try.
#
#   rota submit --follow -var dir=/shared/me examples/train.hcl

variable "dir" {
  type        = string
  description = "Where the checkpoint goes: a directory that every node sees and you may write to."
}

variable "steps" {
  type    = number
  default = 100
}

job "train" {
  time_limit = "10m"

  checkpoint {
    path     = var.dir
    interval = "10s"
  }

  task "train" {
    command = ["bin/trainer", "-steps", var.steps, "-pause", "50ms", "-dir", var.dir]

    resources {
      cores  = 1
      memory = "256MiB"
      gpus   = 1
    }
  }
}
