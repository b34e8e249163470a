job "pipeline" {
  checkpoint {
    path       = "/shared/you/model.pt"
    node_local = true
  }
  group "prepare" {
    task "main" { command = ["true"] }
  }
  group "train" {
    elastic {
      min = 1
      max = 4
    }
    task "main" { command = ["true"] }
  }
}
