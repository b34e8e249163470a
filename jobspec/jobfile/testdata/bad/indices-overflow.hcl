job "a" {
  array { indices = "0-3,99999999999999999999" }
  task "t" { command = ["run"] }
}
