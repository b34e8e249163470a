job "a" {
  time_limit = "2h"
  deadline   = "now+1h"
  task "t" { command = ["true"] }
}
