job "closed-source" {
  checkpoint { criu = true }
  task "main" { command = ["./solver"] }
}
