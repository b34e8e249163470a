job "a" {
  begin    = "2026-03-01 08:00"
  deadline = "2026-02-30T08:00:00Z"
  task "t" { command = ["true"] }
}
