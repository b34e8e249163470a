job "a" {
  array { file = "none.csv" }
  task "t" { command = ["run"] }
}
