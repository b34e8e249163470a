job "a" {
  task "t" {
    command = ["true"]
    env {
      TOKEN = "x"
    }
    secret "both" {
      source = "/home/a/.token"
      env    = "A"
      file   = "/etc/token"
    }
    secret "both" {
      source = ".token"
      env    = "TOKEN"
    }
    secret "in the way" {
      source = "/home/a/.token"
      file   = "/proc/token"
    }
    secret "ours" {
      source = "/home/a/.token"
      env    = "ROTA_TOKEN"
    }
    secret "digits" {
      source = "/home/a/.token"
      env    = "1ST"
    }
    secret "nowhere" {
    }
  }
}
