job "a" {
  path = "aÿb"
}
