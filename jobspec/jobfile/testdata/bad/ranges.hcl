job "a" {
  priority = 101
  restart {
    attempts      = 1000
    retry_on_exit = [0, 256]
  }
  checkpoint { exit_code = 200 }
  group "g" {
    count                = 5000
    max_workers_per_node = 9999
    task "t" {
      command = ["true"]
      resources {
        cores  = 100000
        memory = "1B"
        gpus   = 65
      }
      log {
        max_size = "1K"
        keep     = -1
      }
      launch {
        type  = "slurm"
        nproc = 100000
        port  = 80
      }
    }
  }
}
