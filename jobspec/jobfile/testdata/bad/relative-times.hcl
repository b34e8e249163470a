job "a" {
  begin    = "now+soon"
  deadline = "now-1h"
  task "t" { command = ["true"] }
}
