job "a" {
  begin    = "2026-03-01T08:00:00Z"
  deadline = "2026-03-01T09:00:00+02:00"
  task "t" { command = ["true"] }
}
