job "a" {
  group "one" {
    count = 2
    gang  = false

    task "t" {
      command = ["true"]
    }

    task "u" {
      command = ["true"]
    }
  }

  group "two" {
    task "t" {
      command = ["true"]
    }
  }
}
