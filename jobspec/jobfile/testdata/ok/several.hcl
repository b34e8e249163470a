job "a" {
  group "one" {
    gang  = false
    count = 2
    task "t" { command = ["true"] }
    task "u" { command = ["true"] }
  }
  group "two" {
    task "t" { command = ["true"] }
  }
}
