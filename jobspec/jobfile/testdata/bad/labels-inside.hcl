job "a" {
  restart "x" {}
  task { command = ["true"] }
  task "t" "u" { command = ["true"] }
}
