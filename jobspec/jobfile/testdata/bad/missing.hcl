job "a" {
  task "t" {
    command = ["true"]
    mount {
      source = "/shared"
    }
  }
}
variable "v" {
  default = 1
  validation { condition = true }
}
