job "a" {
  on_dependency_failure = "ignore"
  dependency {
    type  = "ok"
    jobs  = [0, "123_[4-9]", "12_99999999999", "-1", 12, "12"]
    match = "one"
  }
  dependency {
    type = "singleton"
    jobs = [4]
  }
  dependency {
    type = "aftercorr"
    jobs = [4]
  }
  dependency {
    type = "afterok"
  }
  task "t" { command = ["true"] }
}
