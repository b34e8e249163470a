job "a" {
  array { indices = "0-100000" }
  task "t" { command = ["run"] }
}
