package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// TestImage runs a job on a root file system of its own, and checks that the image was not changed.
func TestImage(t *testing.T) {
	n := newNode(t, 0)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed")
	}
	image := filepath.Join(t.TempDir(), "image")
	check(t, os.MkdirAll(filepath.Join(image, "bin"), 0o755))
	program, err := os.ReadFile(busybox)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(image, "bin", "busybox"), program, 0o755))
	for _, name := range []string{"sh", "ls", "cat", "touch"} {
		check(t, os.Symlink("busybox", filepath.Join(image, "bin", name)))
	}
	check(t, os.WriteFile(filepath.Join(n.shared, "data"), []byte("from the data\n"), 0o644))
	root, err := container.PrepareImageRoot(filepath.Join(t.TempDir(), "root"), image, []string{n.shared, "/mine"})
	check(t, err)
	n.root = root
	n.mutate = func(in *oci.Input) {
		in.Alloc.Spec.Groups[0].Tasks[0].Mounts = []jobspec.Mount{{Source: n.shared, Target: "/mine", ReadOnly: true}}
	}
	exit, out := n.run(one, "#!/bin/sh\nls /\ncat /mine/data\ntouch /bin/x || echo read-only\ntouch /mine/x || "+
		"echo no\nexit 2")
	if exit.Code != 2 || strings.Contains(out, "usr\n") {
		t.Errorf("exit %+v\n%s", exit, out)
	}
	want(t, out, "bin", "mine", "from the data", "read-only", "no")
	entries, err := os.ReadDir(image)
	check(t, err)
	if len(entries) != 1 {
		t.Errorf("the image was written to: %v", entries)
	}
	if _, err := container.PrepareImageRoot(t.TempDir(), image, []string{"/bin/inner"}); err == nil ||
		!strings.Contains(err.Error(), "it does not exist in") {
		t.Errorf("a mount target inside of the image that is not there: %v", err)
	}
}
