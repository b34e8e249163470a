# A short trial that starts before long jobs do, to see whether a change works at all.
job "try" {
  class      = "te"
  time_limit = "20m"

  task "main" {
    # ${ROTA_JOB_ID} is left to the shell; $$ would be needed for anything longer than one word.
    script = <<-EOT
      set -euo pipefail
      python train.py --steps 200 --out "/tmp/try-${ROTA_JOB_ID}"
    EOT

    resources {
      cores  = 8
      memory = "64GiB"
      gpus   = 1
    }
  }
}
