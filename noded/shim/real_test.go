package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

func init() { Reexec() } // the first process of a real container is this program

// realTask returns a task with the bundle of a real container that runs a script. It skips the test
// where no container can be made.
func realTask(t *testing.T, name, script string, mount specs.Mount) *task {
	t.Helper()
	base := reachable(t)
	runtime.LockOSThread() // the container ends with its parent, which is this thread
	dir, parent := filepath.Join(base, "c"), fmt.Sprintf("/rota-test-shim-%d", os.Getpid())
	t.Cleanup(func() {
		for _, pattern := range []string{"/sys/fs/cgroup" + parent, "/sys/fs/cgroup/*" + parent} {
			dirs, _ := filepath.Glob(pattern) // the pattern is well formed
			for _, d := range dirs {
				if left, _ := filepath.Glob(d + "/*/cgroup.procs"); len(left) > 0 {
					t.Errorf("cgroups left: %v", left)
				}
				_ = os.Remove(d) // another test may use it
			}
		}
	})
	root, err := container.PrepareHostRoot(filepath.Join(base, "root"), []string{"/mine", "/secrets"})
	must(t, err)
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
		{Destination: "/secrets", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=711"}},
	}
	for _, b := range root.Binds {
		mounts = append(mounts, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source,
			Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	}
	if mount.Source != "" {
		mounts = append(mounts, mount)
	}
	must(t, os.MkdirAll(dir, 0o755))
	b, err := json.Marshal(specs.Spec{
		Version: specs.Version, Root: &specs.Root{Path: root.Path, Readonly: true}, Mounts: mounts,
		Process: &specs.Process{Args: []string{"/bin/sh", "-c", script}, Cwd: "/", NoNewPrivileges: true,
			Env:          []string{"PATH=/usr/bin:/bin"},
			User:         specs.User{UID: other.UID, GID: other.GID, AdditionalGids: other.GIDs},
			Capabilities: &specs.LinuxCapabilities{}},
		Linux: &specs.Linux{CgroupsPath: parent + "/" + name, Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}},
			Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}},
	})
	must(t, err)
	must(t, os.WriteFile(container.ConfigPath(dir), b, 0o600))
	return &task{taskState: taskState{state: container.Created}, dir: dir, logDir: filepath.Join(dir, "log"),
		name: name, user: other}
}

// createReal creates a container, or skips the test where that is not possible.
func createReal(t *testing.T, one *task) error {
	t.Helper()
	err := one.create(noScan(t).worker, "")
	if err != nil && (strings.Contains(err.Error(), "cannot use cgroups") || errors.Is(err, unix.EPERM)) {
		t.Skipf("no container can be made here: %v", err)
	}
	return err
}

// TestARealContainerHasOnlyItsRights notices, from within a container, what the other tests look at
// from outside: group root, a capability, new privileges, an open descriptor, a secret of others.
func TestARealContainerHasOnlyItsRights(t *testing.T) {
	one := realTask(t, "rights", `id -u; id -g; id -G
grep -E '^(NoNewPrivs|Cap(Eff|Prm|Inh|Bnd|Amb)):' /proc/self/status
ls /proc/self/fd | sort -n | tail -2 | head -1; cat /secrets/key
ls -ln /secrets/key | cut -c1-10; exit 6`, specs.Mount{})
	source := filepath.Join(filepath.Dir(one.dir), "key")
	must(t, errors.Join(os.WriteFile(source, []byte("the secret\n"), 0o400),
		os.Chown(source, int(other.UID), int(other.GID))))
	one.Secrets = []container.Secret{{Name: "key", Source: source, Target: "/secrets/key"}}
	must(t, createReal(t, one))
	one.start()
	<-one.container.ended
	one.recordEnd()
	if one.exit.Code != 6 || one.exit.Signal != 0 || one.state != container.Exited {
		t.Errorf("it ended as %+v", one.exit)
	}
	b, err := os.ReadFile(filepath.Join(one.logDir, "stdout"))
	must(t, err)
	zero := "\t0000000000000000\n"
	want := "23456\n23457\n23457 24000\nCapInh:" + zero + "CapPrm:" + zero + "CapEff:" + zero + "CapBnd:" + zero +
		"CapAmb:" + zero + "NoNewPrivs:\t1\n3\nthe secret\n-r--------\n"
	if string(b) != want {
		t.Errorf("it says\n%s\nnot\n%s", b, want)
	}
	if _, err := os.Lstat(container.StateDir(one.dir)); !os.IsNotExist(err) {
		t.Errorf("its state is left: %v", err)
	}
}

// TestARealContainerWhoseMountWasSwapped notices a container that is made although the source of a
// mount is no longer what was checked, and what such a failure leaves behind.
func TestARealContainerWhoseMountWasSwapped(t *testing.T) {
	for name, mounted := range map[string]string{"same": "good", "swapped": "locked"} {
		one := realTask(t, name, "exec sleep 1000", specs.Mount{Destination: "/mine", Type: "bind",
			Source: "/x", Options: []string{"rbind", "ro"}})
		base := filepath.Dir(one.dir)
		must(t, errors.Join(os.Mkdir(base+"/good", 0o755), os.Mkdir(base+"/locked", 0o755)))
		text, err := os.ReadFile(container.ConfigPath(one.dir))
		must(t, err)
		text = []byte(strings.Replace(string(text), `"/x"`, `"`+base+"/"+mounted+`"`, 1))
		must(t, os.WriteFile(container.ConfigPath(one.dir), text, 0o600))
		one.Guards = []container.Guard{{Source: base + "/good", Target: "/mine", Below: []string{base}}}
		err = createReal(t, one)
		if (err == nil) != (name == "same") ||
			err != nil && !strings.Contains(err.Error(), "changed while it was being mounted at /mine") {
			t.Errorf("%s: %v", name, err)
		}
		one.container.discard()
		if err := unix.Kill(one.container.pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("%s: its process: %v", name, err)
		}
		one.logs.awaitRest(time.Second)
	}
}
