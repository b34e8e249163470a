job "a" {
  nodes         = ["gpu[1-2]"]
  exclude_nodes = ["gpu1", "gpu2"]
  task "t" { command = ["true"] }
}
