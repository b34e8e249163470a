job "a" {
  group "g" {
    network {
      mode = "bridge"
      port "tb" { static = 6006 }
    }
    task "t" { command = ["true"] }
  }
}
