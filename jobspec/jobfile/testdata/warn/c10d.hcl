job "a" {
  group "g" {
    count = 2

    task "t" {
      command = ["torchrun", "--rdzv-backend=c10d", "train.py"]

      log {
        stdout = "/shared/%j-%N.out"
      }
    }
  }
}
