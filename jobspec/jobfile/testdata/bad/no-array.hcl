job "a" {
  array {
    max_parallel = -1
    max_failures = -2
    order        = "best"
  }
  task "t" { command = ["run", array.index] }
}
