package container

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hierarchies makes a directory that looks like hierarchies of cgroup version 1.
func hierarchies(t *testing.T, names ...string) string {
	t.Helper()
	mount := t.TempDir()
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(mount, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mount, name, "cgroup.procs"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return mount
}

// TestShimsAreMovedWhereSystemdWatches notices a hierarchy that is left out, and one too many: what a
// shim uses counts as the daemon's in those of limits.
func TestShimsAreMovedWhereSystemdWatches(t *testing.T) {
	mount := hierarchies(t, "systemd", "unified", "pids")
	g, err := newShimGroup(mount, "/system.slice/rota-jobs.service", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.add(1234); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(mount + "/*/system.slice/rota-jobs.service/shims/cgroup.procs")
	if len(found) != 2 {
		t.Fatalf("found %v", found)
	}
	for _, file := range found {
		if b, err := os.ReadFile(file); err != nil || string(b) != "1234" {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	if g, err = newShimGroup(hierarchies(t, "pids"), "/x", nil); err != nil || len(g.dirs) > 0 {
		t.Errorf("without such hierarchies: %v, %v", g, err)
	}
	if g, err = newShimGroup(mount, "", nil); err != nil || g.add(1) != nil {
		t.Errorf("without a root: %v", err)
	}
}

// TestAShimThatCannotBeMoved notices a daemon of version 1 that does not go on, or logs every shim,
// and one of version 2 that goes on.
func TestAShimThatCannotBeMoved(t *testing.T) {
	var said bytes.Buffer
	g, err := newShimGroup(hierarchies(t, "systemd"), "/x", slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	g.dirs = []string{"/nowhere"}
	for range 2 {
		if err := g.add(1); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(said.String(), "shims stay in the node daemon's cgroup"); n != 1 {
		t.Errorf("logged %d times: %s", n, &said)
	}
	g.required = true
	if err := g.add(1); err == nil || !strings.Contains(err.Error(), "--cgroup-root") {
		t.Errorf("where it must be moved: %v", err)
	}
}

// TestAShimHasItsOwnCgroup notices a shim that stays in the cgroup of the daemon, and a cgroup that
// stays after the last shim.
func TestAShimHasItsOwnCgroup(t *testing.T) {
	root := fmt.Sprintf("/rota-test-group-%d", os.Getpid())
	g, err := newShimGroup(cgroupMount, root, nil)
	if err != nil || len(g.dirs) == 0 {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		for _, dir := range g.dirs {
			if err := os.Remove(filepath.Dir(dir)); err != nil {
				t.Error(err)
			}
		}
	})
	waits := filepath.Join(t.TempDir(), "shim")
	if err := os.WriteFile(waits, []byte("#!/bin/sh\nexec cat <&3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &pool{cfg: Config{ShimPath: waits}, group: g, ready: make(chan *shimProcess, 1)}
	s, err := p.startShim()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.process.Pid))
	if err != nil || strings.Count(string(b), root+"/shims\n") != len(g.dirs) {
		t.Errorf("it is in %s, %v", b, err)
	}
	p.close()
	if !isDir(g.dirs[0]) {
		t.Error("the cgroup of a shim that runs is gone")
	}
	s.end()
	p.group.remove()
	for _, dir := range g.dirs {
		if isDir(dir) {
			t.Errorf("%s is left", dir)
		}
	}
}
