job "x" {
  datacenters = ["dc1"]
  type = "batch"
  group "g" {
    count = 2
    task "m" {
      driver = "docker"
      config {
        image = "redis"
        command = "redis"
      }
      resources {
        cpu = 500
        memory = 256
      }
      env { A = 1 }
    }
  }
}
