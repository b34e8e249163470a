package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

// TestAWorkerKeepsNoGuards notices directories of a job that its shim holds open for as long as the
// job runs: they could not be unmounted.
func TestAWorkerKeepsNoGuards(t *testing.T) {
	dir := openTempDir(t)
	p := script("echo ready; exec sleep 100")
	p.Guards = []container.Guard{{Source: dir}}
	w := live(t, nil, p).start()
	w.says("", "ready")
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == dir {
			t.Error("a guard is still open")
		}
	}
}

// TestAWorkersSecrets notices secrets that reach the wrong file or the wrong task's container.
func TestAWorkersSecrets(t *testing.T) {
	base := openTempDir(t)
	p := script(`cd /run/rota/secrets && stat -c '%n %u %g %a' one two; cat one two; ` +
		`echo more >> one || echo refused; exit 0`)
	for _, name := range []string{"one", "two"} {
		check(t, os.WriteFile(filepath.Join(base, name), []byte("value of "+name+"\n"), 0o400))
		check(t, os.Chown(filepath.Join(base, name), shimtest.UID, shimtest.GID))
		p.Secrets = append(p.Secrets, container.Secret{Name: name, Source: filepath.Join(base, name),
			Target: "/run/rota/secrets/" + name})
	}
	w := live(t, nil, p)
	w.start().end()
	want(t, w.output(""), "one 23456 23457 400", "two 23456 23457 400", "value of one", "value of two", "refused")
	check(t, os.Chmod(base, 0o755))
	found := false
	check(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if b, _ := os.ReadFile(path); !strings.Contains(path, "/log/") && strings.Contains(string(b), "value of") {
			found = true
		}
		return err
	}))
	if found {
		t.Error("a secret stands on the disk")
	}
}
