# -var from_var=1
# -var list=["x", "y"]
# -var-file testdata/files/values.rotavars
# -var-file testdata/files/values.json
# -auto-file testdata/files/auto.rotavars
variable "from_var" { type = number }
variable "from_file" {}
variable "from_json" {
  type        = map(list(number))
  description = "as written, ${"not"} a template"
}
variable "from_env" { default = "default" }
variable "from_auto" { default = "default" }
variable "from_default" {
  default   = "default"
  sensitive = false
}
variable "list" { type = list(string) }
variable "literal" {}

locals {
  two  = local.one + 1
  one  = var.from_var
  when = timestamp()
}

job "values" {
  limit  = "90m"
  count  = local.two
  share  = 0.5
  tags   = [var.from_file, var.from_env, var.from_auto, var.from_default, local.when, env("ALLOWED"), uuid(), file("text.txt"), var.literal]
  codes  = [for n in flatten(values(var.from_json)) : n * 2 if n > 1]
  tokens = { matlab = 2, "ansys" = duration("1m") + size("1KiB") }
  lists  = { for k, v in var.from_json : upper(k) => v }
  axes   = { z = var.list, a = [true, 1.5] }

  meta {
    hidden = var.list[1]
  }
}
