job "script-file" {
  task "a" {
    script = <<EOT
#!/bin/bash
echo "$${NOT_TOUCHED} %%{also not}"
EOT

    launch {
      type  = "slurm"
      nproc = 2
    }
  }
}
