package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// insideV2 tells the tests that they run where /sys/fs/cgroup is version 2, without controllers for
// memory, cores and processes.
const insideV2 = "ROTA_TEST_CGROUP2"

// bareResources keeps only the device rules, which version 2 always has.
func bareResources(r *specs.LinuxResources) { r.CPU, r.Memory, r.Pids = nil, nil, nil }

const cgroupMount = "/sys/fs/cgroup"

// unified reports whether this machine has cgroup version 2 alone.
func unified() bool {
	var fs unix.Statfs_t
	return unix.Statfs(cgroupMount, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// needsController skips a test where a container cannot be limited by one of the kernel's controllers.
func needsController(t *testing.T, name string) {
	t.Helper()
	if unified() {
		if controllers := read(t, cgroupMount+"/cgroup.controllers"); !slices.Contains(strings.Fields(controllers), name) {
			t.Skipf("cgroup version 2 has no controller %s here, only %s", name, controllers)
		}
	} else if _, err := os.Stat(filepath.Join(cgroupMount, name)); err != nil {
		t.Skipf("cgroup version 1 has no controller %s here: %v", name, err)
	}
}

// cgroupOf returns the directory of a container's cgroup; with version 1, in the hierarchy of pids.
func cgroupOf(id container.ID) string {
	if unified() {
		return filepath.Join(cgroupMount, cgroupRoot, id.String())
	}
	return filepath.Join(cgroupMount, "pids", cgroupRoot, id.String())
}

// ownCgroup is a command of a container that prints its cgroup.
const ownCgroup = `grep -E ':pids:|^0::/.' /proc/self/cgroup | cut -d: -f3`

// cgroupsLeft lists the cgroups of containers that there are, in every hierarchy.
func cgroupsLeft() []string {
	v1, _ := filepath.Glob(cgroupMount + "/*" + cgroupRoot + "/[0-9]*")
	v2, _ := filepath.Glob(cgroupMount + cgroupRoot + "/[0-9]*")
	return append(v1, v2...)
}

// TestCgroup2 repeats the contract and the device fence on cgroup version 2, in a mount namespace
// of its own if this machine runs version 1.
func TestCgroup2(t *testing.T) {
	const beside = cgroupMount + "/unified"
	var fs unix.Statfs_t
	switch {
	case os.Getenv(insideV2) != "":
		t.Skip("is version 2 already")
	case unified():
		t.Skip("is version 2: every test runs on it")
	case os.Geteuid() != 0:
		t.Skip("containers need root")
	case unix.Statfs(beside, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC:
		t.Skip("no cgroup version 2 hierarchy beside version 1 here")
	}
	const enter = `set -e
mount --make-rprivate /; mount --bind ` + beside + ` /mnt
for d in /sys/fs/cgroup/*; do if mountpoint -q "$d"; then umount -l "$d"; fi; done
mount --bind /mnt /sys/fs/cgroup; umount -l /mnt
exec "$0" -test.run 'TestContract|TestDeviceFence|TestTasksInOrder|TestTasksEndWithTheirShim' -test.v`
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", enter, "/proc/self/exe")
	self, err := os.Executable()
	check(t, err)
	cmd.Args[len(cmd.Args)-1] = self
	cmd.Env = append(os.Environ(), insideV2+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("on cgroup version 2: %v\n%s", err, out)
	}
}

func editResources(config any) {
	if spec, ok := config.(*specs.Spec); ok {
		bareResources(spec.Linux.Resources)
	}
}
