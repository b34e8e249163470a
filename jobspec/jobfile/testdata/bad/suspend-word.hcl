job "c" {
  preemption {
    mode = "freeze"
  }

  task "t" {
    command = ["true"]
  }
}
