job "a" {
  time_limt = "1h"
  xyzzy     = 1
  tsk "t" {
    command = ["true"]
  }
  task "t" {
    comand = ["true"]
    resource {
      gpus = 1
    }
    resources {
      gpu_count = 1
      mem       = "1GiB"
    }
    lunch {}
  }
  grop "g" {}
}
