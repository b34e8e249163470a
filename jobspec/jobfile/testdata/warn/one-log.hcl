job "a" {
  group "g" {
    count = 4

    task "t" {
      command = ["x"]

      log {
        stdout = "/shared/%x-%j.out"
        stderr = "/shared/%x-%j-${worker.index}.err"
        join   = false
      }
    }
  }
}
