job "a" {
  restart {}
  restart {}
  task "t" {
    command = ["true"]
    resources {}
    resources {}
  }
}
job "b" {
  task "t" { command = ["true"] }
}
locals { x = 1 }
locals { x = 2 }
variable "v" { default = 1 }
variable "v" { default = 1 }
