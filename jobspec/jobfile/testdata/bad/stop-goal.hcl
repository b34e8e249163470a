job "a" {
  array {
    indices = "0-9"
    stop {
      metric  = "loss"
      goal    = "min"
      at_step = 2
      keep    = "top 100%"
    }
  }
  task "t" {
    command = ["run"]
    progress {
      metric = "loss"
      goal   = "max"
    }
  }
}
