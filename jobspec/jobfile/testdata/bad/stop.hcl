job "a" {
  array {
    indices = "0-9"
    stop {
      metric  = "loss"
      goal    = "min"
      at_step = 2000
      keep    = "the best"
    }
  }
  task "t" {
    command = ["run"]
    progress {
      metric = "loss"
      goal   = "max"
      total  = 1000
    }
  }
}
