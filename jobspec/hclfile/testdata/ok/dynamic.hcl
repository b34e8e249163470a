variable "mounts" {
  type    = map(string)
  default = { "/a" = "/x", "/b" = "/y" }
}

variable "shared" {
  type = list(object({ name = string, cores = optional(number, 2) }))
  default = [{ name = "one" }, { name = "two", cores = 4 }]
}

locals {
  none = []
}

job "made" {
  dynamic "task" {
    for_each = var.shared
    iterator = each
    labels   = ["task-${each.key}-${each.value.name}"]

    content {
      command = ["run", each.value.name, "${HOME}"]
      cores   = each.value.cores

      env {
        NAME = each.value.name
      }

      dynamic "mount" {
        for_each = var.mounts
        content {
          source = mount.key
          target = "${mount.value}/${each.value.name}/${array.index}"
        }
      }

      dynamic "log" {
        for_each = each.key == 0 ? ["out"] : []
        content {
          source = log.value
        }
      }
    }
  }

  task "written" {
    command = ["true"]

    dynamic "mount" {
      for_each = local.none
      content {
        source = "never"
      }
    }
    dynamic "mount" {
      for_each = toset(["b", "a", "b"])
      content {
        source = "/${mount.key}"
        target = "/${mount.value}"
      }
    }
  }

  dynamic "meta" {
    for_each = { owner = "me" }
    content {
      owner = meta.value
    }
  }
}
