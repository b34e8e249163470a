// Package gputest stands in for NVIDIA's driver: it builds a library with NVML's functions that
// reports what a file says. So the real way through dlopen and cgo can be tested on machines
// without a GPU.
package gputest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/nvml.c
var source []byte

// EnvWorld names the variable with the path of the file that the library reads. The file's lines
// are explained in testdata/nvml.c.
const EnvWorld = "ROTA_FAKE_NVML"

// Build compiles the library and returns its path. With old it lacks the functions that old drivers
// lack. The test is skipped where there is no C compiler.
func Build(t testing.TB, old bool) string {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the library that stands in for NVML cannot be built")
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "nvml.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		t.Fatal(err)
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatalf("find nvml.h: %v", err)
	}
	args := []string{"-shared", "-fPIC", "-Wall", "-I", filepath.Join(strings.TrimSpace(string(module)), "pkg/nvml"),
		"-o", to, from}
	if old {
		args = append(args, "-DOLD")
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("build library: %v\n%s", err, out)
	}
	return to
}
