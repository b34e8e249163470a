jobs "a" {}
job "a" {
  cuont = 1
  nodes = ["x"]
  hang {}
  count {
  }
  task = "x"
  limit = "half an hour"
  share = "x"
  tokens = { a = 1.5, b = "x" }
  lists = { a = 1 }
  tags = [1, [2]]
  axes = { a = [1, []] }
  path = "a\u0000b"
  meta {
    inner {}
    list = []
    nul = "\u0000"
  }
  task "one" "two" {}
  task {}
  task "t" {
    cores = 1.5
    memory = 1e99999999
    debug = "yes"
    script_file = "../x"
    log {}
    log {}
  }
}
job "b" {}
