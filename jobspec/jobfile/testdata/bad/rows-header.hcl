job "a" {
  array { file = "header.csv" }
  task "t" { command = ["run"] }
}
