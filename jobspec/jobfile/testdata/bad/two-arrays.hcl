job "a" {
  array {
    indices = "0-9"
    matrix  = { lr = [1, 2] }
    file    = "params.csv"
  }
  task "t" { command = ["run"] }
}
