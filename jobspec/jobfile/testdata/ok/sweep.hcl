# Every combination, four at a time; the weaker three quarters end at step 200.
job "sweep" {
  time_limit = "2h"
  begin      = "now + 1h30m"
  deadline   = "2026-01-03T00:00:00+01:00"

  array {
    matrix = {
      lr    = ["1e-3", "3e-4", 1e-4]
      seed  = [1, 2, 3, 4]
      amp   = [true, false]
      alpha = [for x in range(2) : x / 2]
    }
    max_parallel = 4
    max_failures = 3
    order        = "random"

    stop {
      metric  = "loss"
      at_step = 200
      keep    = "top 25%"
    }
  }

  task "trial" {
    image       = "/images/${array.amp}"
    script_file = "refs.sh"

    env {
      RUN     = "sweep-${array.index}-lr${array.lr}"
      LITERAL = "$${array.index} and $${HOME} and ${HOME}"
      PLAIN   = "100%"
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
    progress {
      pattern = "step (?P<step>\\d+) loss (?P<loss>\\S+)"
      metric  = "loss"
      goal    = "max"
    }
    log {
      stdout = "logs/${array.lr}-%A_%a.out"
    }
  }
}
