job "a" {
  count  = 1 / 0
  tags   = [upercase("x"), duration("x"), format("%99999d", 1), indent(1000, "x"), env("HOME"), env("UNSET"), file("absent"), file("/etc/passwd")]
  codes  = [var, local.x, home, "${home.dir}", vra.x]
  path   = "${var}"
  share  = tonumber("x")
  tokens = 1e99999999
  limit  = 5e99999999
}
