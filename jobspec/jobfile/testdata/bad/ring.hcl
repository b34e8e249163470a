job "a" {
  group "one" {
    depends_on = ["three:started"]
    task "t" { command = ["true"] }
  }
  group "two" {
    depends_on = ["one"]
    task "t" { command = ["true"] }
  }
  group "three" {
    depends_on = ["two:failed"]
    task "t" { command = ["true"] }
  }
}
