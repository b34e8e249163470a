job "a" {
  task "t" { command = ["true"] }
  task "u" { command = ["true"] }
}
