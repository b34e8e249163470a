job "a" {
  array { indices = "0-99%8" }
  task "t" { command = ["run"] }
}
