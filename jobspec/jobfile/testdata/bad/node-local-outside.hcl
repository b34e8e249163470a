job "train" {
  checkpoint {
    path       = "../other/model.pt"
    node_local = true
  }
  task "main" { command = ["true"] }
}
