job "a" {
  array { file = "twice.csv" }
  task "t" { command = ["run"] }
}
