job "a" {
  task "t" {
    command = ["true"]
    dynamic "mount" {
      for_each = "everything"
      content {
        source = "/a"
        target = "/b"
      }
    }
  }
}
