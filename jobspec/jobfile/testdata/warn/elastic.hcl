job "a" {
  group "g" {
    elastic {
      min = 1
      max = 4
    }
    task "t" {
      command = ["true"]
    }
  }
}
