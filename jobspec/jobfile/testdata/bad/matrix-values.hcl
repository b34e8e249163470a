job "a" {
  array {
    matrix = {
      lr = [1, [2]]
    }
  }
  task "t" { command = ["run"] }
}
