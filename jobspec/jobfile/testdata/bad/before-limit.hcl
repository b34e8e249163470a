job "late" {
  time_limit        = "10m"
  requeue_exit_code = 85

  checkpoint {
    path         = "/shared/late"
    before_limit = "10m"
  }
  preemption {
    signal_to = "steps"
  }
  task "t" {
    command = ["true"]
  }
}
