# A search over parameters: every combination is an element of an array, and the weaker ones end early.
job "sweep" {
  time_limit = "2h"

  array {
    matrix = {
      lr   = ["1e-3", "3e-4", "1e-4"]
      seed = [1, 2, 3, 4]
    }
    max_parallel = 4
    max_failures = 3

    # Once every element has reported step 200, the better quarter goes on and the others are cancelled.
    stop {
      metric  = "loss"
      at_step = 200
      keep    = "top 25%"
    }
  }

  task "trial" {
    command = ["python", "trial.py", "--lr", array.lr, "--seed", array.seed, "--out", "runs/${array.index}"]

    resources {
      cores  = 4
      memory = "32GiB"
      gpus   = 1
    }

    # Read from lines such as: step 200 loss 0.31
    progress {
      pattern = "step (?P<step>\\d+) loss (?P<loss>\\S+)"
      metric  = "loss"
      goal    = "min"
    }
  }
}
