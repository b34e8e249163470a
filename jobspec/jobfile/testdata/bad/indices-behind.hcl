job "a" {
  array { indices = "7,3" }
  task "t" { command = ["run"] }
}
