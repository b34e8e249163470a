job "a" {
  array { indices = "0-nine" }
  task "t" { command = ["run"] }
}
