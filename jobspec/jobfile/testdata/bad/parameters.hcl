job "a" {
  array {
    matrix = {
      lr   = [1, 2]
      seed = [1, 2]
    }
  }
  task "t" {
    command = ["run", array.lrr, "${array.index}", "--seed=${array.sed}"]
    env {
      MOMENTUM = array.momentum
    }
    mount {
      source = "/data/${array.seed}"
      target = "/data/${array.seed}"
    }
  }
}
