job "a" {
  constraint {
    attribute = "node.gpu.modell"
    value     = "H100"
  }
  constraint {
    attribute = "node.cores"
    operator  = "=="
    value     = 8
  }
  constraint {
    attribute = "node.cores"
    operator  = ">="
    value     = "many"
  }
  constraint {
    attribute = "node.memory"
    operator  = ">="
    value     = 512
  }
  constraint {
    attribute = "node.label.driver"
    operator  = "version"
    value     = "> new"
  }
  constraint {
    attribute = "node.name"
    operator  = "regexp"
    value     = "gpu["
  }
  constraint {
    attribute = "node.name"
    operator  = "in"
    value     = "a"
  }
  constraint {
    attribute = "node.name"
    operator  = "is_set"
    value     = "yes"
  }
  affinity {
    attribute = "node.name"
    operator  = ">"
    value     = "a"
    weight    = 1000
  }
  affinity {
    attribute = "rack"
    weight    = 0
  }
  constraint {
    value = "x"
  }
  task "t" { command = ["true"] }
}
