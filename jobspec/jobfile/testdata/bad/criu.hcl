job "two-workers" {
  checkpoint { criu = true }
  group "main" {
    count = 2
    task "main" { command = ["true"] }
  }
}
