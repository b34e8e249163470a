job "a" {
  dynamic "task" {
    for_each = [1]
    labels   = ["t"]
  }
  dynamic "task" {
    labels = ["t"]
    content {}
  }
  dynamic "task" {
    for_each = 5
    labels   = ["t"]
    content {}
  }
  dynamic "task" {
    for_each = null
    labels   = ["t"]
    content {}
  }
  dynamic "task" {
    for_each = [1]
    content {}
  }
  dynamic "task" {
    for_each = [1]
    iterator = "each"
    labels   = ["t", "u"]
    foreach  = []
    content {}
    content {}
  }
  dynamic "task" {
    for_each = [[1], "x"]
    iterator = job
    labels   = [1]
    content {}
  }
  dynamic "meta" {
    for_each = ["a", "b"]
    labels   = ["x"]
    content {}
  }
  dynamic "hang" {
    for_each = [1]
    content {}
  }
  dynamic "tasks" {
    for_each = [1]
    content {}
  }
  dynamic "count" {
    for_each = [1]
    content {}
  }
  dynamic {
    for_each = [1]
    content {}
  }
  dynamc "task" {}

  task "t" {
    dynamic "log" {
      for_each = ["a", "b"]
      content {
        source  = log.value
        sourc   = log.key
        target  = lock.value
      }
    }
    env {
      dynamic "x" {}
    }
  }
}
