job "a" {
  array {
    matrix = {
      index = [1]
      Rate  = [1]
      empty = []
    }
  }
  task "t" { command = ["run"] }
}
