package requirements

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCgroupsAreProbed notices a place for cgroups that cannot be used and is taken, and a probe that
// is left behind.
func TestCgroupsAreProbed(t *testing.T) {
	base := t.TempDir()
	if err := cgroup(base, "/rota/n1"); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(base + "/rota/n1"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if err := os.WriteFile(base+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for hierarchy, says := range map[string]string{base + "/none": base + "/none does not exist: mount it writable",
		base + "/file": "cgroups cannot be used: mkdir " + base + "/file"} {
		if err := cgroup(hierarchy, "/rota/n1"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", hierarchy, err)
		}
	}
}

// TestEmptyCgroupsGo notices cgroups that a daemon leaves, and one that it takes from a job.
func TestEmptyCgroupsGo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes cgroups")
	}
	const root = "/rota-noded-empty/n1"
	found := func(root string) []string {
		v1, _ := filepath.Glob("/sys/fs/cgroup/*" + root)
		v2, _ := filepath.Glob("/sys/fs/cgroup" + root)
		return append(v1, v2...)
	}
	if err := Cgroups(root); err != nil {
		t.Skipf("no cgroups can be made here: %v", err)
	}
	all := found(root)
	if len(all) == 0 {
		t.Fatal("none was made")
	}
	job := filepath.Join(all[0], "1.1.0")
	if err := os.Mkdir(job, 0o755); err != nil {
		t.Fatal(err)
	}
	RemoveCgroups(root)
	if left := found(root); len(left) != 1 || left[0] != all[0] {
		t.Errorf("beside that of a job %v are left", left)
	}
	if err := os.Remove(job); err != nil {
		t.Fatal(err)
	}
	RemoveCgroups(root)
	if left := found(filepath.Dir(root)); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestAProbeLeavesNothing notices cgroups that are left where there were none, and one that is taken
// away.
func TestAProbeLeavesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes cgroups")
	}
	const root = "/rota-probed/n1"
	found := func(path string) int {
		v1, _ := filepath.Glob("/sys/fs/cgroup/*" + path)
		v2, _ := filepath.Glob("/sys/fs/cgroup" + path)
		return len(v1) + len(v2)
	}
	if err := ProbeCgroups(root); err != nil {
		t.Skipf("no cgroups can be made here: %v", err)
	}
	if n := found("/rota-probed"); n > 0 {
		t.Errorf("%d cgroups are left", n)
	}
	if err := Cgroups(root); err != nil {
		t.Fatal(err)
	}
	before := found(root)
	if err := ProbeCgroups(root); err != nil || found(root) != before {
		t.Errorf("of %d cgroups %d are left: %v", before, found(root), err)
	}
	RemoveCgroups(root)
}

// TestOldKernelsAreRefused notices a kernel that passes and is too old.
func TestOldKernelsAreRefused(t *testing.T) {
	for release, fine := range map[string]bool{"5.10.0-28-amd64": true, "6.1.0": true, "5.9.16": false,
		"4.18.0-553.el8": false, "5.15.0-105-generic": true, "10.0": true, "": false, "Linux": false} {
		if err := Kernel(release); (err == nil) != fine {
			t.Errorf("%q: %v", release, err)
		}
	}
}

// TestControllersOfVersion2 notices a controller that is missing and not named.
func TestControllersOfVersion2(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{"cpuset cpu io memory hugetlb pids\n": "",
		"cpuset io pids\n": "memory, cpu:"} {
		if err := os.WriteFile(dir+"/cgroup.controllers", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := missingControllers(dir)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestProgramsBesideTheDaemon notices a directory, or a file that cannot be run, that counts as a program.
func TestProgramsBesideTheDaemon(t *testing.T) {
	dir := t.TempDir()
	path := Beside(filepath.Join(dir, "rota-noded"), "rota-none")
	if path != filepath.Join(dir, "rota-none") {
		t.Errorf("got %s", path)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if Program("--shim", path) == nil || Program("--shim", dir) == nil || Program("--shim", path+"-not") == nil {
		t.Error("what is no program counts as one")
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Program("--shim", path); err != nil {
		t.Error(err)
	}
}

// TestHelpersAreFound: the helper beside the program comes before the installed one, and where there
// is none, messages name the place beside the program.
func TestHelpersAreFound(t *testing.T) {
	root := t.TempDir()
	self := filepath.Join(root, "bin/rota-noded")
	beside, installed := filepath.Join(root, "bin/rota-shim"), filepath.Join(root, "libexec/rota/rota-shim")
	for _, step := range []struct{ made, want string }{{"", beside}, {installed, installed}, {beside, beside}} {
		if step.made != "" {
			if err := os.MkdirAll(filepath.Dir(step.made), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(step.made, nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := Beside(self, "rota-shim"); got != step.want {
			t.Errorf("with %q: got %s, want %s", step.made, got, step.want)
		}
	}
}
