job "a" {
  array { indices = "9-0" }
  task "t" { command = ["run"] }
}
