variable "v" { default = job.id }
variable "w" {
  default = 1
  validation {
    condition     = array.index == 1
    error_message = "never"
  }
}
locals { l = "run-${array.index}" }
job "a" {
  limit = job.id
  count = array.index
  tags  = ["x", "y-${array.lr}"]
  path  = "/ckpt/${job.id}"
  meta { m = node.name }

  dynamic "task" {
    for_each = range(array.size)
    labels   = ["t-${worker.index}"]
    content {}
  }

  task "t" {
    image   = "base:${job.id}"
    command = ["echo", worker.indx, "${array.Lr}", array["lr"], array, jobs.id, "${job.id}", node]
  }
}
