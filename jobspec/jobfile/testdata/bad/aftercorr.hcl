job "a" {
  array { indices = "0-3" }
  dependency {
    type = "aftercorr"
    jobs = ["12_3"]
  }
  dependency {
    jobs = [1]
  }
  task "t" { command = ["true"] }
}
