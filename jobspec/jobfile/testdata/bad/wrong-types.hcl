job "a" {
  queue    = 5
  priority = "70"
  hold     = "yes"
  tags     = "one"
  export   = ["A", ["B"]]
  restart {
    attempts      = 1.5
    retry_on_exit = [1, "two"]
  }
  group "g" {
    count = 0
    task "t" {
      command = "python train.py"
      leader  = 1
      env {
        LIST = ["a"]
      }
      resources {
        cores  = -1
        memory = true
        gpus   = 99999999999
      }
      launch {
        nproc = "all"
      }
    }
  }
}
