job "train" {
  checkpoint {
    path       = "run/model.pt"
    node_local = true
  }
  task "main" {
    command = ["true"]
    resources {
      cores = 1
      memory = "1GiB"
    }
  }
}
