job "a" {
  task "t" {
    command = ["run", array.index]
  }
}
