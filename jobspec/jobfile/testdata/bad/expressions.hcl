locals {
  obj = { a = 1 }
}
job "a" {
  description = "${1 / 0}"
  queue       = local.obj.b
  account     = substr(1)
  tags        = [for x in 5 : x]
  task "t" {
    command = [env("FORBIDDEN"), env("UNSET"), file("../secret"), file("/etc/passwd"), file("missing"), duration("5"), format("%99999d", 1), indent(1000, "x")]
  }
}
