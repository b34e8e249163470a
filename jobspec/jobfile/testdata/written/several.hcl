job "a" {
  group "one" {
    gang = false

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
