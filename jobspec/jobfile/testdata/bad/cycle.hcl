locals {
  a = "${local.b}x"
  b = local.c
  c = local.a
}
job "a" {
  description = local.a
  task "t" { command = ["true"] }
}
