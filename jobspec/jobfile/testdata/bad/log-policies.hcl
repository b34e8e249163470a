job "a" {
  log_policy "x" {
    pattern = "a(?=b)"
    action  = "mail"
    stream  = "log"
  }
  log_policy "x" {
    pattern = "error|"
    action  = "fail"
  }
  log_policy "y" {
    pattern = "äöü[z-a]"
    action  = "event"
  }
  log_policy "z" {
  }
  task "t" { command = ["true"] }
}
