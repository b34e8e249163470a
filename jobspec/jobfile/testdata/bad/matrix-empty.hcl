job "a" {
  array { matrix = {} }
  task "t" { command = ["run"] }
}
