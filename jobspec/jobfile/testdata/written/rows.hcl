job "rows" {
  array {
    file         = "params.csv"
    max_failures = 0
  }

  task "trial" {
    command = ["run", array.index, "--lr", array.lr, "--note=${array.note}", "${array.seed},x"]
  }
}
