job "a" {
  array { indices = "0-9" }
  group "one" {
    task "t" { command = ["true"] }
  }
  group "two" {
    depends_on = ["one"]
    task "t" { command = ["true"] }
  }
}
