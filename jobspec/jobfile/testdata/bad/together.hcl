job "a" {
  gang_scope = "job"
  group "ps" {
    count = 96
    gang  = false
    task "t" { command = ["true"] }
  }
  group "worker" {
    count      = 4001
    depends_on = ["ps"]
    time_limit = "1h"
    restart { attempts = 1 }
    task "t" { command = ["true"] }
  }
}
