job "a" {
  array {
    indices = "0-9"
    stop {
    }
  }
  task "t" { command = ["run"] }
}
