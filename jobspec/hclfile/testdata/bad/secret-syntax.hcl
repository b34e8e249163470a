job "a" {
  limit = "90m
}
variable "password" {
  sensitive = true
  default   = "hunter2
}
