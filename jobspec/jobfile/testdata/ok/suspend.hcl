# Pauses for other jobs, and goes on where it was.
job "sweep-lr" {
  preemption {
    mode         = "suspend"
    grace_period = "2m"
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
