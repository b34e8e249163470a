job "indices" {
  gang_scope = "job"

  array {
    indices = "0-9:3,20-21"
  }

  group "ps" {
    task "t" {
      command = ["ps", array.index, worker.index, worker.count, node.name, job.id, job.attempt]
    }
  }

  group "worker" {
    count   = 4
    success = "leader"

    task "t" {
      command = ["$${job.id} is no reference here"]
    }
  }
}
