job "train" {
  checkpoint {
    path       = "run/model.pt"
    node_local = true
  }

  task "main" {
    command = ["true"]

    resources {
      memory = "1GiB"
    }
  }
}
