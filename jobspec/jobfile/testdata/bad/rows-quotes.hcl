job "a" {
  array { file = "quotes.csv" }
  task "t" { command = ["run"] }
}
