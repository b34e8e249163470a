job "a" {
  group "g" {
  }
}
