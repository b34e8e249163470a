package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// insideV2 tells the tests that they run where /sys/fs/cgroup is version 2, without controllers for
// memory, cores and processes.
const insideV2 = "ROTA_TEST_CGROUP2"

// bareResources keeps only the device rules, which version 2 always has.
func bareResources(r *specs.LinuxResources) { r.CPU, r.Memory, r.Pids = nil, nil, nil }

// TestCgroup2 repeats the contract and the device fence on cgroup version 2, in a mount namespace
// of its own if this machine runs version 1.
func TestCgroup2(t *testing.T) {
	const unified = "/sys/fs/cgroup/unified"
	var fs unix.Statfs_t
	switch {
	case os.Getenv(insideV2) != "":
		t.Skip("is version 2 already")
	case os.Geteuid() != 0:
		t.Skip("containers need root")
	case unix.Statfs(unified, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC:
		t.Skip("no cgroup version 2 hierarchy beside version 1 here")
	}
	const enter = `set -e
mount --make-rprivate /; mount --bind ` + unified + ` /mnt
for d in /sys/fs/cgroup/*; do if mountpoint -q "$d"; then umount -l "$d"; fi; done
mount --bind /mnt /sys/fs/cgroup; umount -l /mnt
exec "$0" -test.v -test.run `
	tests := strings.Join([]string{"TestContract", "TestDeviceFence", "TestTasksInOrder", "TestTasksEndWithTheirShim",
		"TestShimKilledAlone",
		"TestSavedProgramGoesOn", "TestKilledWhileSaved", "TestRemoveEndsWhatIsLeft",
		"TestShimsAreNotInTheDaemonsCgroup"}, "|")
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", enter+"'"+tests+"'", "/proc/self/exe")
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
