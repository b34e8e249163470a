job "a" {
  array { file = "missing.csv" }
  task "t" { command = ["run"] }
}
