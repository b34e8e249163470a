# Distributed training with PyTorch on one to four workers, a GPU each: train.py beside this file says how it is written for that.
#
#   bin/rota submit --follow examples/torch/train.hcl       where "bin/rota dev --sim-gpus 4" runs and Python has PyTorch
#   cp -r examples/torch /shared/me/ && cd /shared/me/torch && rota submit --follow -var dir=/shared/me/torch train.hcl
#
# Rota resizes, moves and preempts it: each time it saves, and goes on from there. Its losses are those of a run that was left alone.

variable "dir" {
  type        = string
  default     = ""
  description = "Where train.py is and the checkpoint goes: a directory that every node sees and you may write to. The default is a new one below the directory of rota dev, and train.py beside this file."
}

variable "steps" {
  type    = number
  default = 400
}

job "torch" {
  time_limit = "30m"

  preemption {
    grace_period = "60s"
  }

  checkpoint {
    path = var.dir == "" ? ".rota/shared" : "${var.dir}/model.pt"
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
      command = [
        var.dir == "" ? "examples/torch/train.py" : "train.py", "--steps", var.steps,
        "--checkpoint", var.dir == "" ? ".rota/shared/torch-${job.id}/model.pt" : "${var.dir}/model.pt",
      ]

      launch {
        type  = "torchrun"
        nproc = "gpu"
      }

      env {
        PET_MONITOR_INTERVAL = "1" # torchrun sees the end of its processes within a second, not five

        # The torchrun of PyTorch 1.13, as Debian 12 has it with Python 3.11, fails without these two. They write the output to
        # files too, and begin its lines with [default0]. Leave them out with other versions.
        PET_REDIRECTS = "1"
        PET_TEE       = "1"

        # Without it a torchrun that does so keeps lines back until there are 8 KiB of them.
        PYTHONUNBUFFERED = "1"
      }

      resources {
        cores  = 1
        memory = "1GiB"
        gpus   = 1
      }
    }
  }
}
