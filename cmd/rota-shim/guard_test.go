package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/noded/container"
)

// TestGuards mounts directories that a job chose. What root could mount and its user could not
// reach must not be seen.
func TestGuards(t *testing.T) {
	n := newNode(t, 0)
	outside := filepath.Join(filepath.Dir(n.shared), "outside")
	for dir, mode := range map[string]os.FileMode{outside: 0o755, n.shared + "/good": 0o755, n.shared +
		"/locked/inner": 0o755} {
		check(t, os.MkdirAll(dir, mode))
		check(t, os.WriteFile(filepath.Join(dir, "name"), []byte(filepath.Base(dir)+"\n"), 0o644))
	}
	check(t, os.Chmod(n.shared+"/locked", 0o700))
	check(t, os.Symlink(outside, n.shared+"/out"))
	check(t, os.Symlink("good", n.shared+"/link"))
	for i, c := range []struct {
		source, mounted, want string // mounted: what libcontainer is told, as if a link had been changed in between
		below                 bool
	}{
		{"good", "good", "", true},
		{"link", "link", "", true},
		{"out", "out", "leads to " + outside + ", which is not below", true},
		{"out", "out", "", false},
		{"locked/inner", "locked/inner", "permission denied", true},
		{"none", "none", "no such file", true},
		{"good", "locked/inner", "changed while it was being mounted", true},
	} {
		id := container.ID{Job: int64(20 + i), Attempt: 1}
		g := container.Guard{Source: filepath.Join(n.shared, c.source), Target: "/mine"}
		if c.below {
			g.Below = []string{"/nowhere", n.shared}
		}
		n.guards = []container.Guard{g}
		dir := n.bundle(id, "cat /mine/name")
		editSpec(t, dir, func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/mine", Type: "bind",
				Source: filepath.Join(n.shared, c.mounted), Options: []string{"rbind", "ro"}})
		})
		err := n.shims.Create(t.Context(), id, dir, time.Now().Add(time.Hour))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v does not say %q", c.source, err, c.want)
			}
			check(t, n.shims.Remove(t.Context(), id))
			continue
		}
		check(t, err)
		check(t, n.shims.Start(t.Context(), id))
		if s := n.await(id); s.Exit == nil || s.Exit.Code != 0 {
			t.Errorf("%s: %+v\n%s", c.source, s, n.output(id))
		}
	}
}

// TestImageListing shows that a directory whose entries the user may not read is no image for that
// user.
func TestImageListing(t *testing.T) {
	n := newNode(t, 0)
	closed := filepath.Join(n.shared, "closed")
	check(t, os.Mkdir(closed, 0o711))
	n.guards = []container.Guard{{Source: closed}}
	err := n.shims.Create(t.Context(), one, n.bundle(one, "true"), time.Now().Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
	check(t, n.shims.Remove(t.Context(), one))
}
