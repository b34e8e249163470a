# -var nodes=many
# -var nods=2
# -var list=[1, 
# -var-file testdata/absent.rotavars
variable "nodes" { type = number }
variable "list" { type = list(number) }
variable "needed" {}
variable "strange" {
  type    = strng
  default = "x"
}
variable "bad_default" {
  type    = number
  default = "three"
}
variable "secret" {
  default   = "x"
  sensitive = true
  typ       = string
}
variable "checked" {
  default = 20
  validation {
    condition     = var.checked < 16
    error_message = "checked must be below 16, not ${var.checked}."
  }
  validation {
    condition     = "no"
    error_message = "never"
  }
}
job "a" {
  task "t" { command = ["true", var.nodes] }
}
