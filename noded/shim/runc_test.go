package shim

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// TestTheProcessHasTheRightsOfItsSpec notices a job that gets group root, another user, a
// capability, or new privileges, and limits that are dropped on the way to the kernel.
func TestTheProcessHasTheRightsOfItsSpec(t *testing.T) {
	p := &specs.Process{
		Args: []string{"a", "b"}, Cwd: "/w", NoNewPrivileges: true,
		User: specs.User{UID: 11, GID: 12, AdditionalGids: []uint32{13, 14}},
		Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_1"}, Effective: []string{"CAP_2"},
			Permitted: []string{"CAP_3"}, Inheritable: []string{"CAP_4"}, Ambient: []string{"CAP_5"}},
		Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE", Soft: 1, Hard: 2}},
	}
	got, err := newProcess(p)
	must(t, err)
	if got.UID != 11 || got.GID != 12 || !reflect.DeepEqual(got.AdditionalGroups, []int{13, 14}) || !got.Init ||
		got.Cwd != "/w" || !reflect.DeepEqual(got.Args, p.Args) {
		t.Errorf("the process is %+v", got)
	}
	if got.NoNewPrivileges == nil || !*got.NoNewPrivileges {
		t.Error("it may get new privileges")
	}
	if want := (configs.Capabilities{Bounding: []string{"CAP_1"}, Effective: []string{"CAP_2"},
		Permitted: []string{"CAP_3"}, Inheritable: []string{"CAP_4"},
		Ambient: []string{"CAP_5"}}); !reflect.DeepEqual(*got.Capabilities, want) {
		t.Errorf("capabilities %+v", *got.Capabilities)
	}
	if want := []configs.Rlimit{{Type: unix.RLIMIT_CORE, Soft: 1, Hard: 2}}; !reflect.DeepEqual(got.Rlimits, want) {
		t.Errorf("limits %+v", got.Rlimits)
	}
	p.Capabilities, p.Rlimits = &specs.LinuxCapabilities{}, []specs.POSIXRlimit{{Type: "RLIMIT_FROB"}}
	if _, err := newProcess(p); err == nil || !strings.Contains(err.Error(), "RLIMIT_FROB") {
		t.Errorf("an unknown limit: %v", err)
	}
}

// TestJobsGetNoTunnels notices the network device that libcontainer always allows, and a score that
// needs a privilege.
func TestJobsGetNoTunnels(t *testing.T) {
	rule := func(major, minor int64) *devices.Rule { return &devices.Rule{Type: 'c', Major: major, Minor: minor} }
	score := -1000
	config := &configs.Config{OomScoreAdj: &score, Cgroups: &cgroups.Cgroup{Resources: &cgroups.Resources{
		Devices: []*devices.Rule{rule(10, 200), rule(10, 229), rule(195, 200)}}}}
	adaptToMachine(config)
	if got := config.Cgroups.Resources.Devices; len(got) != 2 || got[0].Minor != 229 || got[1].Major != 195 {
		t.Errorf("rules %+v", got)
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	must(t, err)
	if text := strings.TrimSpace(string(own)); text == "-1000" || *config.OomScoreAdj == -1000 {
		t.Errorf("score %d, that of the shim %s", *config.OomScoreAdj, text)
	}
	score = 1000
	config.OomScoreAdj = &score
	if adaptToMachine(config); *config.OomScoreAdj != 1000 {
		t.Errorf("a higher score becomes %d", *config.OomScoreAdj)
	}
}

func TestSpecsAreChecked(t *testing.T) {
	dir := t.TempDir()
	if _, err := readSpec(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for text, says := range map[string]string{
		"{": "damaged", "{}": "lacks", `{"process":{"args":["a"]},"root":{}}`: "lacks",
		`{"process":{"args":[]},"root":{},"linux":{}}`: "lacks", `{"process":{"args":["a"]},"linux":{}}`: "lacks",
		`{"root":{},"linux":{}}`: "lacks", `{"process":{"args":["a"]},"root":{},"linux":{}}`: "",
	} {
		must(t, os.WriteFile(container.ConfigPath(dir), []byte(text), 0o600))
		_, err := readSpec(dir)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// ended plays a container that runs a script to its end.
func ended(t *testing.T, script string, result *launch.Result) *runcContainer {
	t.Helper()
	dir := t.TempDir()
	out, err := openLogs(filepath.Join(dir, "log"), container.LogFiles{Join: true}, myself, noScan(t))
	must(t, err)
	c := played(t, dir, "one", script, out)
	must(t, c.start())
	<-c.ended
	if result != nil { // what rota-init said, instead of the played one
		c.results = make(chan launch.Result, 1)
		c.results <- *result
	}
	return c
}

// TestHowAContainerEnded notices a program that was killed and counts as successful, a result of
// rota-init that is ignored, and one that claims both a code and a signal.
func TestHowAContainerEnded(t *testing.T) {
	for _, c := range []struct {
		script       string
		result       *launch.Result
		code, signal int
	}{
		{"exit 0", nil, 0, 0}, {"exit 7", nil, 7, 0}, {"kill -SEGV $$", nil, 0, 11},
		{"exit 7", &launch.Result{Code: 85}, 85, 0}, {"exit 7", &launch.Result{}, 0, 0},
		{"exit 0", &launch.Result{Code: 3, Signal: 6}, 0, 6},
		{`echo '{"code":4}' >&3; exit 9`, nil, 4, 0}, {"echo rubbish >&3; exit 9", nil, 9, 0},
	} {
		e := ended(t, c.script, c.result).exit()
		if e.Code != c.code || e.Signal != c.signal || e.OOM {
			t.Errorf("%s with %+v: %+v", c.script, c.result, e)
		}
	}
	c := ended(t, "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done", nil)
	if e := c.exit(); e.UserMS+e.SystemMS == 0 || time.Since(time.UnixMilli(e.Ended)) > time.Minute {
		t.Errorf("times %+v", e)
	}
}

// TestMemoryIsReadFromTheContainersCgroup notices a job that ran out of memory and is not told so,
// one that is told so although it succeeded, and a peak that is not the peak.
func TestMemoryIsReadFromTheContainersCgroup(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		v1 + "/memory.max_usage_in_bytes": "1234\n", v1 + "/memory.usage_in_bytes": "5\n",
		v1 + "/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		v2 + "/memory.peak":        "5678\n", v2 + "/memory.current": "6\n",
		v2 + "/memory.events": "low 0\noom 3\noom_kill 1\noom_group_kill 0\n",
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, paths := range map[string]map[string]string{
		"1": {"memory": v1}, "2": {"": v2}, "none": {"memory": t.TempDir()},
	} {
		peak := map[string]int64{"1": 1234, "2": 5678}[name]
		for script, failed := range map[string]bool{"exit 0": false, "exit 1": true, "kill -KILL $$": true} {
			c := ended(t, script, nil)
			c.cgroups = paths
			if e := c.exit(); e.PeakMem != peak || e.OOM != (failed && name != "none") {
				t.Errorf("version %s, %s: %+v", name, script, e)
			}
		}
	}
	must(t, os.WriteFile(v2+"/memory.events", []byte("oom 3\noom_kill 0\n"), 0o600))
	c := ended(t, "exit 1", nil)
	c.cgroups = map[string]string{"": v2}
	if e := c.exit(); e.OOM {
		t.Error("memory was short, and no process was killed for it")
	}
}

// TestSignalsOfAContainer notices a kill that only asks, and a signal that fails because the
// program has just ended.
func TestSignalsOfAContainer(t *testing.T) {
	for name, end := range map[string]func(*runcContainer) error{
		"kill": (*runcContainer).kill, "signal": func(c *runcContainer) error { return c.signal(unix.SIGKILL) },
	} {
		dir := t.TempDir()
		out, err := openLogs(filepath.Join(dir, "log"), container.LogFiles{Join: true}, myself, noScan(t))
		must(t, err)
		c := played(t, dir, "one", "trap '' TERM INT HUP; exec sleep 1000", out)
		must(t, c.start())
		must(t, end(c))
		select {
		case <-c.ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it runs on", name)
		}
		if e := c.exit(); e.Signal != int(unix.SIGKILL) {
			t.Errorf("%s: %+v", name, e)
		}
		for range 3 { // it has ended: no error
			if err := errors.Join(c.kill(), c.signal(unix.SIGTERM)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, c.destroy())
		if _, err := os.Lstat(container.StateDir(dir)); !os.IsNotExist(err) {
			t.Errorf("the state is left: %v", err)
		}
	}
}

// TestADiscardedContainerIsDead notices a process that a failed creation leaves behind.
func TestADiscardedContainerIsDead(t *testing.T) {
	dir := t.TempDir()
	out, err := openLogs(filepath.Join(dir, "log"), container.LogFiles{Join: true}, myself, noScan(t))
	must(t, err)
	c := played(t, dir, "one", stubborn, out)
	c.discard()
	if err := unix.Kill(c.pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("its process: %v", err)
	}
	if _, err := os.Lstat(container.StateDir(dir)); !os.IsNotExist(err) {
		t.Errorf("the state is left: %v", err)
	}
}

func TestAdviceOnCgroups(t *testing.T) {
	here := &os.PathError{Op: "mkdir", Path: "/sys/fs/cgroup/pids/x", Err: unix.EROFS}
	if err := explainCgroupError(here); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "must run as root") {
		t.Errorf("got %v", err)
	}
	there := &os.PathError{Op: "mkdir", Path: "/sys/class", Err: unix.EROFS}
	if err := explainCgroupError(there); err != error(there) {
		t.Errorf("got %v", err)
	}
}
