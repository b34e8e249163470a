job "a" {
  class      = "te"
  time_limit = "3h"
  preemption { grace_period = "5m" }
  group "g" {
    count = 3
    task "t" {
      command = ["true"]
      resources { gpus = 8 }
    }
  }
}
