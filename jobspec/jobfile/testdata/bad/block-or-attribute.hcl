job "a" {
  meta = { a = 1 }
  time_limit {
  }
  task "t" {
    command = ["true"]
    env = {
      A = 1
    }
    env {
      inner {}
    }
  }
}
locals {
  block {}
}
