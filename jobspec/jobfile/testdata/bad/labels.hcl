job {
  task "t" "u" { command = ["true"] }
}
variable { default = 1 }
