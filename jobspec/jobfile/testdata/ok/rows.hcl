job "rows" {
  array {
    file         = "params.csv"
    max_failures = 0
  }
  task "trial" {
    command = flatten(["run", array.index, ["--lr", array.lr], "--note=${array.note}", join(",", [array.seed, "x"])])
  }
}
