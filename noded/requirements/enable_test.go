package requirements

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestControllersReachTheContainers notices cgroups of version 2 on the way to the containers that do
// not pass the controllers on, and a daemon that starts although they cannot.
func TestControllersReachTheContainers(t *testing.T) {
	mount := t.TempDir()
	const root = "/system.slice/rota-jobs.service"
	if err := os.MkdirAll(mount+root, 0o755); err != nil {
		t.Fatal(err)
	}
	dirs := []string{"", "/system.slice", root}
	for i, enabled := range []string{"cpuset cpu io memory hugetlb pids", "cpu memory pids cpuset", "cpu memory pids"} {
		if err := os.WriteFile(mount+dirs[i]+"/cgroup.subtree_control", []byte(enabled), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := enableControllers(mount, root); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(mount + root + "/cgroup.subtree_control"); err != nil || string(b) != "+cpuset" {
		t.Errorf("what was missing: %q, %v", b, err)
	}
	b, err := os.ReadFile(mount + "/system.slice/cgroup.subtree_control")
	if err != nil || strings.Contains(string(b), "+") {
		t.Errorf("where nothing was missing: %q, %v", b, err)
	}
	if err := os.Remove(mount + root + "/cgroup.subtree_control"); err != nil {
		t.Fatal(err)
	}
	if err := enableControllers(mount, root); err == nil || !strings.Contains(err.Error(), "cgroups cannot be used") {
		t.Errorf("without the file: %v", err)
	}
}

// TestACgroupWithProcesses notices a daemon that starts although the kernel will refuse limits to its
// containers. It needs a machine with cgroup version 2.
func TestACgroupWithProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes cgroups")
	}
	const mount = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if unix.Statfs(mount, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skip("needs cgroup version 2")
	}
	const root = "/rota-noded-busy"
	if err := Cgroups(root + "/n1"); err != nil {
		t.Skipf("no cgroups can be made here: %v", err)
	}
	t.Cleanup(func() { RemoveCgroups(root + "/n1") })
	busy := root + "/n2"
	if err := os.Mkdir(mount+busy, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { RemoveCgroups(busy) })
	self := func(dir string) {
		if err := os.WriteFile(filepath.Join(mount, dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	self(busy)
	defer self(strings.TrimSpace(strings.TrimPrefix(string(own), "0::")))
	want := "processes run directly in " + mount + busy + " itself"
	if err := Cgroups(busy); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	control := filepath.Join(mount, busy, "cgroup.subtree_control")
	if b, err := os.ReadFile(control); err != nil || len(b) > 1 {
		t.Errorf("a part of the controllers is enabled: %q, %v", b, err)
	}
	if err := os.WriteFile(control, []byte("+cpu"), 0); err != nil { // it now holds threads for the kernel
		t.Fatal(err)
	}
	if err := Cgroups(busy); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with a controller of threads: %v", err)
	}
}

// TestUnitsAreSystemds notices a daemon that removes the cgroup of a unit, and one that leaves its own.
func TestUnitsAreSystemds(t *testing.T) {
	for path, want := range map[string]bool{"/system.slice/rota-jobs.service": true, "/x/y.scope": true,
		"/rota.slice": true, "/rota/n1": false, "/rota/n1.example": false} {
		if isUnit(path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
