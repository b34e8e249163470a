job "a" {
  time_limit = "1h"
  gang_scope = "node"
  group "prep" {
    task "t" { command = ["true"] }
  }
  group "prep" {
    task "t" { command = ["true"] }
  }
  group "train" {
    time_limit        = "2h"
    depends_on        = ["pre", "prep:done", "prep:any", "train"]
    success           = "most"
    on_worker_failure = "retry"
    restart { attempts = 1000 }
    task "t" { command = ["true"] }
    task "t" { command = ["true"] }
  }
}
