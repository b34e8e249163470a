job "a" {
	path = "ä😀é" == 1 ? nothing : "x"
  tags = ["😀😀", wrong, "é", wrong2,
    3,
  ]
  axes = [
    1,
    2,
  ]
}
