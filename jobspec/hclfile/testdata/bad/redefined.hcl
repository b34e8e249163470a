job "a" {
  count = 1
  count = 2
}
