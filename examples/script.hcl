# A shell script without a GPU: what it sees of the machine, and of the job.

job "look-around" {
  time_limit = "1m"

  task "look" {
    script = <<-EOT
      echo "job $ROTA_JOB_ID, attempt $ROTA_ATTEMPT, on $(hostname) as $(id -un)"
      echo "cores: $(nproc), GPUs: $${CUDA_VISIBLE_DEVICES:-none}"
      date
    EOT

    env {
      GREETING = "hello"
    }

    resources {
      memory = "128MiB"
    }
  }
}
