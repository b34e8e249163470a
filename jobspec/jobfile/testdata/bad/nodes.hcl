job "a" {
  nodes         = ["gpu[1-2", "gpu[2-1]", "", "a b"]
  exclude_nodes = ["gpu[1-99999999]"]
  features      = ["ib=1", "x", "x"]
  task "t" { command = ["true"] }
}
