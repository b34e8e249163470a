job "a" {
  group "one" {
    task "t" { command = ["true"] }
  }
  task "u" { command = ["true"] }
}
