locals {
  a = local.b
  b = { x = [local.c] }
  c = "${local.a}!"
  self = self("${local.self}")
  a0 = local.a1
  a1 = local.a2
  a2 = local.a3
  a3 = local.a4
  a4 = local.a5
  a5 = local.a6
  a6 = local.a7
  a7 = local.a8
  a8 = local.a9
  a9 = local.a0
}
job "a" { tags = [local.a] }
