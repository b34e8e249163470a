job "a" {
  array { indices = "0-99:2,98" }
  task "t" { command = ["run"] }
}
