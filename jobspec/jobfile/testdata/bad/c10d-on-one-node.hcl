job "train" {
  group "workers" {
    count                = 2
    max_workers_per_node = 2

    task "train" {
      command = ["train.py"]

      launch {
        type = "torchrun"
        rdzv = "c10d"
      }
    }
  }
}
