job "sweep-lr" {
  preemption {
    grace_period = "2m"
    mode         = "suspend"
  }

  group "train" {
    count = 2

    task "train" {
      command = ["python", "train.py"]

      resources {
        gpus = 1
      }
    }
  }
}
