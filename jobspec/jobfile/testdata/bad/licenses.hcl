job "x" {
  licenses = { "mat lab" = 1, ansys = 0 }

  task "main" {
    command = ["true"]

    resources {
      licenses = 1
    }
  }
}
