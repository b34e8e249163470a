job "a" {
  group "one" {
    gang  = false
    count = 1
    task "t" { command = ["true"] }
    task "u" { command = ["true"] }
  }
  group "two" {
    task "t" { command = ["true"] }
  }
}
