job "a" {
  hold = true
  hold = false
  task "t" { command = ["true"] }
}
