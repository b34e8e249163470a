job "a" {
  task "t" {
    command = [
      array.index + 1,
      "x${upper(array.lr)}",
      "${array.index == 0 ? "first" : "later"}",
      array.lr.x,
      [for i in [1, 2] : "${i}-${array.lr}"],
      "%{if worker.index == 0}leader%{endif}",
      "%{for i in [1]}${array.lr}%{endfor}",
      { name = array.lr },
      concat("x", [array.lr]),
      "${null}-${array.lr}",
      "${["x"]}-${array.lr}",
      true ? "${array.lr}" : 5,
      "x" ? "${array.lr}" : 5,
    ]
    script = "${array.index}\u0000"
    env {
      LIST = [array.lr]
    }
  }
}
