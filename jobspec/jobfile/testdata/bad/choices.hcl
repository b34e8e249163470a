job "a" {
  class = "fast"
  restart { backoff = "linear" }
  preemption { signal = "TERM" }
  task "t" {
    command     = ["true"]
    kill_signal = "SIGSTOP"
    mount {
      source = "/shared"
      target = "/x"
      type   = "nfs"
    }
    log { mode = "write" }
    progress { goal = "up" }
    launch { type = "srun" }
    resources {
      gpu { vendor = "amd" }
    }
  }
}
