job "sweep" {
  time_limit = "2h"
  begin      = "2026-01-02T04:34:05Z"
  deadline   = "2026-01-03T00:00:00+01:00"

  array {
    matrix = {
      lr    = ["1e-3", "3e-4", "0.0001"]
      seed  = ["1", "2", "3", "4"]
      amp   = ["true", "false"]
      alpha = ["0", "0.5"]
    }
    max_parallel = 4
    max_failures = 3
    order        = "random"

    stop {
      metric  = "loss"
      goal    = "max"
      at_step = 200
      keep    = "top 25%"
    }
  }

  task "trial" {
    image  = "/images/${array.amp}"
    script = <<EOT
#!/bin/sh
echo $${array.index} of $ROTA_ARRAY_COUNT
EOT

    env {
      LITERAL = "$${array.index} and $${HOME} and $${HOME}"
      PLAIN   = "100%"
      RUN     = "sweep-${array.index}-lr${array.lr}"
    }

    resources {
      gpus = 1
    }

    mount {
      source = "/shared/data/${array.seed}"
      target = "/data"
    }

    secret "wandb" {
      source = "/home/ada/.wandb/${array.seed}"
      env    = "WANDB_API_KEY"
    }

    log {
      stdout = "logs/${array.lr}-%A_%a.out"
    }

    progress {
      pattern = "step (?P<step>\\d+) loss (?P<loss>\\S+)"
      metric  = "loss"
      goal    = "max"
    }
  }
}
