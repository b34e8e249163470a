job "a" {
  array {
    matrix = {
      a = range(100)
      b = range(100)
      c = range(100)
    }
  }
  task "t" { command = ["run"] }
}
