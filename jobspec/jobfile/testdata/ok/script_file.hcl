job "script-file" {
  task "a" {
    script_file = "run.sh"
    launch {
      type  = "slurm"
      nproc = 2
    }
  }
}
