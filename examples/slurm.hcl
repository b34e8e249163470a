# A program written for Slurm: two workers with two tasks each, and the variables that srun would set.

variable "per_node" {
  type        = number
  default     = 2
  description = "How many workers may share a node. With 1 each has a node of its own, as with srun -N 2."
}

job "slurm-style" {
  time_limit = "1m"

  group "tasks" {
    count                = 2
    max_workers_per_node = var.per_node

    task "task" {
      command = ["/bin/sh", "-c", "echo task $SLURM_PROCID of $SLURM_NTASKS on node $SLURM_NODEID of $SLURM_JOB_NODELIST"]

      launch {
        type  = "slurm"
        nproc = 2
      }

      resources {
        cores  = 1
        memory = "256MiB"
      }
    }
  }
}
