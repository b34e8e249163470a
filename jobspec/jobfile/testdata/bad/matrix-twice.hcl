locals {
  rates = { a = [1], b = [2], a = [3] }
}
job "a" {
  array {
    matrix = {
      lr = [1]
      lr = [2]
    }
  }
  task "t" { command = ["run", array.lr] }
}
