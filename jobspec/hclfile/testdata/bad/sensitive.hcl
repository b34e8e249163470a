# -var given=hunter2-from-the-command-line
# -var number=hunter2-is-no-number
# -var list=["hunter2-in-a-list
# -var-file testdata/files/secret.rotavars
variable "default" {
  default   = "hunter2"
  sensitive = true
}
variable "wrong" {
  type      = number
  default   = "hunter2"
  sensitive = true
}
variable "short" {
  default   = "abc"
  sensitive = true
}
variable "given" { 
  sensitive = true 
}
variable "number" {
  type      = number
  sensitive = true
}
variable "list" {
  type      = list(string)
  sensitive = true
}
variable "filed" {
  type      = map(number)
  sensitive = true
}
variable "ruled" {
  default   = "correct horse"
  sensitive = true
  validation {
    condition     = length(var.ruled) > 5
    error_message = "never"
  }
  validation {
    condition     = strlen(var.ruled) > 50
    error_message = "too short: ${var.ruled}"
  }
}
variable "strange" {
  default   = "battery"
  sensitive = "yes"
}

locals {
  half = substr(var.default, 0, 3)
  both = { user = "me", password = var.short }
}

job "a" {
  limit  = var.default
  count  = local.half
  codes  = [1, "${local.half}"]
  tokens = { "${local.half}" = local.both.password }
  lists  = local.both
  tags   = [duration(local.half), file(var.short)]
  share  = var.short + 1

  dynamic "task" {
    for_each = [var.short]
    labels   = ["t-${task.value}"]
    content {}
  }
  dynamic "task" {
    for_each = [var.short]
    labels   = ["t-${task.key}"]
    content {
      cores   = task.value
      command = [join(array.index, [local.half, var.short]), flatten(var.short), concat([array.lr], var.short)]
    }
  }
}
