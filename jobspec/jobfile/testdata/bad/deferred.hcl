job "a" {
  description = "${job.id} ${job.attempt} ${node.name}"
  task "t" {
    command = ["echo", worker.index, "${worker.count}", array.index, array.lr, worker.indx]
  }
}
