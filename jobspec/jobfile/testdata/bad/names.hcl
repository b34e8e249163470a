job "my job" {
  queue   = "-x"
  account = "a/b"
  tags    = ["ok", ""]
  meta {
    fine = 1
  }
  group "g!" {
    task "" {
      command = ["true"]
      user    = "a b"
    }
  }
}
