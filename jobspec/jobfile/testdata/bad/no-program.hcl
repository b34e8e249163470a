job "a" {
  task "t" {
    resources { gpus = 1 }
  }
}
