# One worker that starts a process for each of its two GPUs, as torchrun or srun would.

job "ranks" {
  time_limit = "1m"

  task "rank" {
    command = ["/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE sees GPU $LOCAL_RANK"]

    launch {
      type = "per_gpu"
    }

    resources {
      cores  = 2
      memory = "256MiB"
      gpus   = 2
    }
  }
}
