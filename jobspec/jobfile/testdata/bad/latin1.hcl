job "a" {
  description = "café"
}
