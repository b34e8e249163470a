# A program written for Slurm: two nodes with two tasks each, and the variables that srun would set.

job "slurm-style" {
  time_limit = "1m"

  group "tasks" {
    count                = 2
    max_workers_per_node = 1 # as with srun -N 2; without it they share a node that has room

    task "task" {
      command = ["/bin/sh", "-c", "echo task $SLURM_PROCID of $SLURM_NTASKS on node $SLURM_NODEID of $SLURM_JOB_NODELIST"]

      launch {
        type  = "slurm"
        nproc = 2
      }

      resources {
        cores  = 2
        memory = "256MiB"
      }
    }
  }
}
