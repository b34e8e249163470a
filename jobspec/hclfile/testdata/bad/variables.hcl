# -var nodes=many
# -var nods=2
# -var list=[1, 
# -var-file testdata/files/wrong.rotavars
# -var-file testdata/files/wrong.json
# -var-file testdata/files/absent.rotavars
variable "nodes" { type = number }
variable "list" { type = list(number) }
variable "needed" {}
variable "filed" { type = number }
variable "described" {
  default     = 1
  description = 5
}
variable "object" {
  type    = object({ a = number, b = optional(string, "x") })
  default = { b = "y" }
}
variable "misspelt" {
  type    = map(list(object({ cores = number, gpus = optional(number, 0) })))
  default = { a = [{ cores = 1 }, { cores = 2, gpu = 8 }] }
}
variable "strange" {
  type    = strng
  default = "x"
}
variable "twice" { default = 1 }
variable "twice" { default = 2 }
variable "checked" {
  default = 20
  validation {
    condition     = var.checked < 16
    error_message = 5
  }
  validation {
    condition     = "no"
    error_message = "never"
  }
  validation {
    condition     = var.checked < 16
    error_message = "checked must be below 16, not ${var.checked}."
  }
  validation {}
  dynamic "validation" {}
}
job "a" {}
