locals {
  a = "0123456789012345678901234567890123456789012345678901234567890123"
  b = "${local.a}${local.a}${local.a}${local.a}${local.a}${local.a}${local.a}${local.a}"
  c = "${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}"
  d = "${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}"
  e = "${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}"
  f = "${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}"
  g = "${local.f}${local.f}${local.f}${local.f}${local.f}${local.f}${local.f}${local.f}"
  h = [for x in range(1000) : [for y in range(1000) : [for z in range(1000) : x]]]
}
job "a" {
  description = local.g
  task "t" { command = ["true"] }
}
