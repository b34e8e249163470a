# -var-file testdata/files/broken.rotavars
variable "password" { sensitive = true }
job "a" {}
