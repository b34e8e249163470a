job "a" {
  array {
    matrix = { lr = 0.1 }
  }
  task "t" { command = ["run", array.lr] }
}
