job "a" {
  group "g" {
    task "both" {
      command = ["true"]
      progress {
        file    = "p.jsonl"
        pattern = "step (?P<step>\\d+)"
      }
    }
    task "no-step" {
      command = ["true"]
      progress { pattern = "loss (\\S+)" }
    }
    task "no-metric" {
      command = ["true"]
      progress {
        pattern = "step (?P<step>\\d+) loss (?P<loss>\\S+)"
        metric  = "accuracy"
      }
    }
    task "re2" {
      command = ["true"]
      progress { pattern = "step (?P<step>\\d+" }
    }
  }
}
