variable "nodes" { default = 2 }
variable "later" { default = var.nodes }
locals { ckpt = "/shared" }
job "a" {
  account     = nlp
  description = "${var.nodse} ${local.cpkt} ${thing.name} ${var}"
  workdir     = ckpt
  queue       = vra.nodes
  group "g" {
    count = nodes
    task "t" {
      command = ["true", foo("x"), uper("x")]
    }
  }
}
