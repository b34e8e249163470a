job "where" {
  nodes         = ["gpu[01-04,07]", "big"]
  exclude_nodes = ["gpu03"]
  features      = ["ib", "h100"]
  licenses      = { ansys = 1, matlab = 2 }

  constraint {
    attribute = "node.memory"
    operator  = ">="
    value     = "512GiB"
  }

  constraint {
    attribute = "node.label.rack"
    operator  = "in"
    values    = ["r1", "r2"]
  }

  affinity {
    attribute = "node.cores"
    value     = "128"
    weight    = -20
  }

  group "main" {
    constraint {
      attribute = "node.label.driver"
      operator  = "version"
      value     = ">= 550, < 600"
    }

    constraint {
      attribute = "node.label.scratch"
      operator  = "is_set"
    }

    affinity {
      attribute = "node.gpu.model"
      operator  = "glob"
      value     = "h100*"
      weight    = 80
    }

    task "t" {
      command = ["true"]
    }
  }
}
