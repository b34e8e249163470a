job "b" {
  preemption {
    mode = "suspend"
  }

  group "some" {
    elastic {
      min = 1
      max = 4
    }

    task "t" {
      command = ["true"]
    }
  }
}
