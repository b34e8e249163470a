locals {
  base   = "/data"
  dollar = "$"
  looks  = "$${job.id}"
  extra  = ["--verbose", "$${array.index}"]
}

job "sweep" {
  axes = {
    seed = [1, 2]
    lr   = ["1e-3", "3e-4"]
  }

  task "refers" {
    command = concat(
      ["python", "run.py", "--lr", array.lr, "--out=${local.base}/${array.index}"],
      local.extra,
      true ? [job.id] : [],
      [join("-", ["a", array.seed, 5])],
    )
    script = <<-EOT
      echo ${HOME} $${array.index} $HOME ${worker.index} of ${worker.count} on ${node.name}
      echo ${local.dollar}${job.attempt} ${local.looks} $${HOME:-/tmp}
    EOT

    env {
      RUN     = "sweep-${array.index}-lr${array.lr}"
      LITERAL = "$${array.lr} and $$$${array.lr}"
      NUMBER  = 5
      BARE    = array.index
    }

    mount {
      source = "/shared/${job.id}"
      target = "/mnt"
    }

    log {
      source = "%{if var.deep}deep-${array.lr}%{else}flat%{endif}"
    }
  }

  task "literal" {
    command = ["echo", "$${array.index}", "${HOME}", "$${unknown.root}"]
    image   = "${local.base}/image"
  }

  task "from-file" {
    script_file = "template.sh"

    env {
      ATTEMPT = job.attempt
    }
  }
}

variable "deep" { default = true }
