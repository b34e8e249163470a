job "a" {
  deadline = "2025-12-31T00:00:00Z"
  task "t" { command = ["true"] }
}
