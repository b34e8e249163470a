package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fetchKernel returns a kernel of Debian's package name, below dir. It downloads the package if it is
// not there, without installing it.
func fetchKernel(ctx context.Context, dir, name string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	pattern := filepath.Join(dir, "boot", "vmlinuz-*")
	if found, _ := filepath.Glob(pattern); len(found) > 0 {
		return found[0], nil
	}
	real, err := imagePackage(ctx, name)
	if err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp("", "rota-vmtest-kernel-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(os.Stderr, "downloading %s\n", real)
	if _, err := output(ctx, tmp, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", real); err != nil {
		return "", fmt.Errorf("download the kernel (try `apt-get update` first): %w", err)
	}
	debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if len(debs) != 1 {
		return "", fmt.Errorf("apt-get download %s left %d packages in %s, not one", real, len(debs), tmp)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := output(ctx, tmp, "dpkg-deb", "-x", debs[0], dir); err != nil {
		return "", fmt.Errorf("unpack the kernel: %w", err)
	}
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		return "", fmt.Errorf("package %s has no boot/vmlinuz: choose another one with -kernel", real)
	}
	return found[0], nil
}

// imagePackage returns the package that the metapackage name stands for; a package that is none
// stands for itself.
func imagePackage(ctx context.Context, name string) (string, error) {
	text, err := output(ctx, "/", "apt-cache", "depends", "--important", name)
	if err != nil {
		return "", fmt.Errorf("find the kernel's package (try `apt-get update` first): %w", err)
	}
	return imageOf(name, text), nil
}

// imageOf reads what apt-cache depends printed.
func imageOf(name, text string) string {
	for line := range strings.Lines(text) {
		if of, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			return "linux-image-" + of
		}
	}
	return name
}

// output runs a command in dir and returns what it wrote; an error holds its messages.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &messages)
	}
	return string(out), nil
}
