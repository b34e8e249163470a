package rota

import (
	"os/exec"
	"strings"
	"testing"
)

// TestModulesAgree: the laboratory tests the product with the versions that the product is built
// with. Each of the two modules chooses its own, so a requirement of one may lack in the other.
func TestModulesAgree(t *testing.T) {
	product, lab := linked(t, "."), linked(t, laboratory)
	shared := 0
	for path, version := range product {
		if other, both := lab[path]; both {
			shared++
			if other != version {
				t.Errorf("%s is %s in the product and %s in %s: go get %s@%s there", path, version, other, laboratory, path,
					version)
			}
		}
	}
	if shared < 10 {
		t.Errorf("only %d modules in both; the test would prove little", shared)
	}
	for _, path := range []string{"github.com/anishathalye/porcupine", "github.com/rogpeppe/go-internal"} {
		if product[path] != "" || lab[path] == "" {
			t.Errorf("%s is for the laboratory: version %q in the product, %q in %s", path, product[path], lab[path],
				laboratory)
		}
	}
}

// linked returns the versions of the modules that the packages of the module in dir and their tests
// need, by path.
func linked(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-test", "-f",
		"{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", dir, err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			versions[path] = version
		}
	}
	return versions
}
