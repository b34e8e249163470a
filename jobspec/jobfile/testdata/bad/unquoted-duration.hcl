job "a" {
  time_limit = 1h
  task "t" { command = ["true"] }
}
