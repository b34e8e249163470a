# A trial-and-error job: short, and ahead of everything best-effort in the queue.

job "try" {
  class      = "te"
  time_limit = "5m"

  task "try" {
    command = ["bin/trainer", "-steps", 20, "-rate", 0.01]

    resources {
      memory = "256MiB"
      gpus   = 1
    }
  }
}
