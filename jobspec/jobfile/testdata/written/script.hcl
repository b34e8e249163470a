job "script" {
  task "a" {
    script = <<EOT
#!/usr/bin/env python3
print("hello $${USER}, %%{literal}, $${x:-1}")
EOT

    launch {
      type = "per_gpu"
    }

    resources {
      gpus = 1
    }
  }
}
