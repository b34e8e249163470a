job "a" {
  time_limit = "${array.index}h"
  array { indices = "0-3" }
  task "t" {
    command = ["run", array.index + 1, upper(array.lr)]
    user    = node.name
  }
}
