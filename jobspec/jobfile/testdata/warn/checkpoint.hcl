job "a" {
  checkpoint { interval = "10m" }
  task "t" { command = ["true"] }
}
