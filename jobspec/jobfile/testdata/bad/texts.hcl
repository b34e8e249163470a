job "a" {
  export = ["A B", "*"]
  task "t" {
    command = ["true"]
    env {
      my-var = 1
    }
  }
}
