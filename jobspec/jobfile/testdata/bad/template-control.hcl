job "a" {
  task "t" { command = ["curl", "-w", "%{http_code}"] }
}
