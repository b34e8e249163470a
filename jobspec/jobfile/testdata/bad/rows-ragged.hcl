job "a" {
  array { file = "ragged.csv" }
  task "t" { command = ["run"] }
}
