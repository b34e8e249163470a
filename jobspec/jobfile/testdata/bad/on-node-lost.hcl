job "a" {
  on_node_lost = "stay"
  task "main" {
    command = ["true"]
  }
}
