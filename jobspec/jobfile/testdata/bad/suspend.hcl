job "a" {
  class = "te"

  preemption {
    mode = "suspend"
  }

  group "whole" {
    exclusive = true

    task "t" {
      command = ["true"]
    }
  }
}
