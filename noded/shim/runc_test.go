package shim

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cgroupconfigs "github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// TestAProcessHasTheRightsOfItsSpec notices the planted bug "a job gets group root", and a dropped
// no_new_privs, bounding set or list of groups. Each value differs from every other.
func TestAProcessHasTheRightsOfItsSpec(t *testing.T) {
	p, err := newProcess(&specs.Process{
		Args: []string{"/run/rota/init"}, Cwd: "/tmp", NoNewPrivileges: true,
		User: specs.User{UID: 1001, GID: 1002, AdditionalGids: []uint32{1003, 1004}},
		Capabilities: &specs.LinuxCapabilities{Bounding: []string{"A"}, Effective: []string{"B"},
			Permitted: []string{"C"}, Inheritable: []string{"D"}, Ambient: []string{"E"}},
		Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE", Soft: 0, Hard: 1}},
	})
	check(t, err)
	if p.UID != 1001 || p.GID != 1002 || !reflect.DeepEqual(p.AdditionalGroups, []int{1003, 1004}) {
		t.Errorf("it is %d:%d %v", p.UID, p.GID, p.AdditionalGroups)
	}
	if p.NoNewPrivileges == nil || !*p.NoNewPrivileges {
		t.Error("it may gain privileges")
	}
	if !reflect.DeepEqual(p.Capabilities, &configs.Capabilities{Bounding: []string{"A"}, Effective: []string{"B"},
		Permitted: []string{"C"}, Inheritable: []string{"D"}, Ambient: []string{"E"}}) {
		t.Errorf("capabilities %+v", p.Capabilities)
	}
	if !p.Init || p.Cwd != "/tmp" || !reflect.DeepEqual(p.Args, []string{"/run/rota/init"}) {
		t.Errorf("process %+v", p)
	}
	if !slices.Contains(p.Rlimits, configs.Rlimit{Type: unix.RLIMIT_CORE, Soft: 0, Hard: 1}) ||
		len(p.Rlimits) != len(usualLimits) {
		t.Errorf("limits %+v", p.Rlimits)
	}
}

func TestResourceLimits(t *testing.T) {
	for name, kind := range map[string]int{"RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK,
		"RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_STACK": unix.RLIMIT_STACK} {
		got, err := rlimits([]specs.POSIXRlimit{{Type: name, Soft: 1, Hard: 2}})
		if err != nil || len(got) != len(usualLimits) || got[0] != (configs.Rlimit{Type: kind, Soft: 1, Hard: 2}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	usual, err := rlimits(nil)
	if err != nil || len(usual) != len(usualLimits) {
		t.Errorf("without any: %+v, %v", usual, err)
	}
	for i, l := range usual {
		var own unix.Rlimit
		check(t, unix.Getrlimit(l.Type, &own))
		most := usualLimits[i]
		if want := min(most.Hard, own.Max); l.Type != most.Type || l.Hard != want || l.Soft != min(most.Soft, want) {
			t.Errorf("limit %d is %+v; the daemon's own is %+v", i, l, own)
		}
	}
	for _, name := range []string{"", "RLIMIT_NPROC", "RLIMIT_RTPRIO", "core"} {
		if got, err := rlimits([]specs.POSIXRlimit{{Type: name}}); err == nil || got != nil ||
			!strings.Contains(err.Error(), "unknown resource limit "+name) {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	if limitText(math.MaxUint64) != "unlimited" || limitText(5) != "5" {
		t.Error("the texts of limits")
	}
}

// TestALimitAboveTheDaemonsOwn notices a limit that is taken for granted and that the kernel refuses.
func TestALimitAboveTheDaemonsOwn(t *testing.T) {
	needsRoot(t)
	done := make(chan error, 2)
	var own unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	above := []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: own.Max, Hard: own.Max + 1}}
	if hasCapability(unix.CAP_SYS_RESOURCE) {
		if _, err := rlimits(above); err != nil {
			t.Errorf("with the capability: %v", err)
		}
	}
	_, err := container.AsUser(self(), func() (struct{}, error) { // on a thread that ends
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		done <- unix.Capset(&head, &none[0])
		_, err := rlimits(above)
		done <- err
		_, err = rlimits([]specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: own.Max, Hard: own.Max}})
		return struct{}{}, err
	})
	check(t, <-done)
	if refused := <-done; refused == nil || !strings.Contains(refused.Error(), "is above the node daemon's own of") {
		t.Errorf("without the capability: %v", refused)
	}
	if err != nil {
		t.Errorf("the daemon's own limit: %v", err)
	}
}

func TestWhichCapabilitiesThisProcessHas(t *testing.T) {
	status, err := os.ReadFile("/proc/thread-self/status")
	check(t, err)
	_, text, _ := strings.Cut(string(status), "CapEff:\t")
	var mask uint64
	for _, c := range text[:16] {
		mask = mask<<4 | uint64(strings.IndexRune("0123456789abcdef", c))
	}
	for capability := range 41 { // those of both words
		if got := hasCapability(capability); got != (mask&(1<<capability) != 0) {
			t.Errorf("capability %d: %t", capability, got)
		}
	}
}

// TestWhatTheMachineCannotDo notices a job that the kernel kills later than the daemon, and network
// devices that jobs are granted.
func TestWhatTheMachineCannotDo(t *testing.T) {
	rule := func(major, minor int64) *devices.Rule { return &devices.Rule{Major: major, Minor: minor} }
	score := 999
	low := -1000
	for _, one := range []*int{&score, &low, nil} {
		config := &configs.Config{OomScoreAdj: one, Cgroups: &cgroupconfigs.Cgroup{Resources: &cgroupconfigs.Resources{
			Devices: []*devices.Rule{rule(10, 200), rule(10, 201), rule(195, 200), rule(10, 200)}}}}
		adaptToMachine(config)
		if got := config.Cgroups.Resources.Devices; len(got) != 2 || *got[0] != *rule(10, 201) || *got[1] != *rule(195, 200) {
			t.Errorf("rules %v", got)
		}
		own, _ := os.ReadFile("/proc/self/oom_score_adj")
		switch one {
		case &score:
			if *config.OomScoreAdj != 999 {
				t.Errorf("the score is %d", *config.OomScoreAdj)
			}
		case &low:
			if got := *config.OomScoreAdj; got == -1000 && strings.TrimSpace(string(own)) != "-1000" {
				t.Errorf("the score is %d", got)
			}
		case nil:
			if config.OomScoreAdj != nil {
				t.Error("there is a score")
			}
		}
	}
}

func TestErrorsOfCgroups(t *testing.T) {
	for path, advice := range map[string]bool{"/sys/fs/cgroup/x": true, "/sys/kernel": false} {
		in := &os.PathError{Op: "mkdir", Path: path, Err: unix.EROFS}
		got := explainCgroupError(in)
		if !errors.Is(got, unix.EROFS) || strings.Contains(got.Error(), "/sys/fs/cgroup must be writable") != advice {
			t.Errorf("%s: %v", path, got)
		}
	}
	if err := errors.New("other"); !errors.Is(explainCgroupError(err), err) {
		t.Error("another error is changed")
	}
}

// TestADamagedSpec notices a bundle that is half written and run all the same.
func TestADamagedSpec(t *testing.T) {
	dir := t.TempDir()
	if _, err := readSpec(dir); err == nil || !strings.Contains(err.Error(), "read container spec") {
		t.Errorf("without a file: %v", err)
	}
	whole := specs.Spec{Process: &specs.Process{Args: []string{"x"}}, Root: &specs.Root{}, Linux: &specs.Linux{}}
	edits := map[string]func(*specs.Spec){"": func(*specs.Spec) {}, "process": func(s *specs.Spec) { s.Process = nil },
		"root": func(s *specs.Spec) { s.Root = nil }, "linux": func(s *specs.Spec) { s.Linux = nil },
		"arguments": func(s *specs.Spec) { s.Process = &specs.Process{} }}
	for name, edit := range edits {
		s := whole
		edit(&s)
		b, err := json.Marshal(&s)
		check(t, err)
		check(t, os.WriteFile(container.ConfigPath(dir), b, 0o600))
		got, err := readSpec(dir)
		if (err == nil) != (name == "") || err != nil && err.Error() != "container spec lacks process, root or linux" ||
			err == nil && got.Process.Args[0] != "x" {
			t.Errorf("without %q: %v", name, err)
		}
	}
	check(t, os.WriteFile(container.ConfigPath(dir), []byte("{"), 0o600))
	if _, err := readSpec(dir); err == nil || !strings.Contains(err.Error(), "container spec is damaged") {
		t.Errorf("half a file: %v", err)
	}
}

// TestWhatACgroupSays notices a job that was killed for its memory and is reported as another
// failure, one that ended well and is not, and the other way round.
func TestWhatACgroupSays(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	write := func(path, text string) { check(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(v1+"/memory.max_usage_in_bytes", "123456\n")
	write(v2+"/memory.peak", "654321\n")
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		v1, v2 string
		peak   int64
	}{{v1, none, 123456}, {none, v2, 654321}, {none, none, 0}} {
		if peak := peakMemory(c.v1, c.v2); peak != c.peak {
			t.Errorf("%+v: %d bytes", c, peak)
		}
	}
	write(v2+"/memory.max", "209715200\n")
	const one = "the kernel killed a process for memory; the limit is 200MiB"
	for _, c := range []struct {
		command string
		said    string
		kills   string
		want    container.Exit
	}{
		{"exit 3", "", "0", container.Exit{Code: 3}},
		{"exit 3", `{"code":4}`, "0", container.Exit{Code: 4}},
		{"exit 3", "", "1", container.Exit{Code: 3, OOM: true, Killed: one}},
		{"exit 0", "", "1", container.Exit{OOM: true, Killed: one}}, // of a pipe, and the script went on
		{"kill -9 $$", "", "2", container.Exit{Signal: 9, OOM: true, Killed: "the kernel killed 2 processes for memory; " +
			"the limit is 200MiB"}},
		{"kill -9 $$", `{"code":4,"signal":0}`, "0", container.Exit{Code: 4}},
		{"exit 3", `{"code":4,"signal":15}`, "0", container.Exit{Signal: 15}},
	} {
		one := &runcContainer{results: make(chan launch.Result, 1), cgroups: map[string]string{"": v2}}
		one.kills.Watch("/x", one.cgroups)
		write(v2+"/memory.events", "oom_kill "+c.kills+"\n")
		one.waited = waitFor(t, c.command)
		if c.said != "" {
			var r launch.Result
			check(t, json.Unmarshal([]byte(c.said), &r))
			one.results <- r
		}
		close(one.results)
		got := one.exit()
		if age := time.Now().UnixMilli() - got.Ended; age < 0 || age > 10_000 || got.PeakMem != 654321 ||
			got.UserMS > 1000 || got.SystemMS > 1000 {
			t.Errorf("%s: %+v", c.command, got)
		}
		got.Ended, got.PeakMem, got.UserMS, got.SystemMS = 0, 0, 0, 0
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s, %s: %+v", c.command, c.said, got)
		}
	}
}

func waitFor(t *testing.T, command string) *os.ProcessState {
	t.Helper()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", command}, &os.ProcAttr{Sys: &syscall.SysProcAttr{}})
	check(t, err)
	state, err := p.Wait()
	check(t, err)
	return state
}

// TestTimeOfTheProcessor notices user time that is taken for system time.
func TestTimeOfTheProcessor(t *testing.T) {
	w := live(t, nil, script(`i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo '{}' >&3`))
	if e := w.start().end(); e.UserMS <= e.SystemMS || e.UserMS < 20 {
		t.Errorf("%d ms of user time, %d of the system's", e.UserMS, e.SystemMS)
	}
}

// TestTimeOfProcessesThatAreKilled notices processor time that is lost because nothing waits for a process
// that ends with its container.
func TestTimeOfProcessesThatAreKilled(t *testing.T) {
	w := live(t, nil, script(`(while :; do :; done) & sleep 1; echo '{}' >&3`))
	if e := w.start().end(); e.UserMS+e.SystemMS < 50 {
		t.Errorf("%d ms of user time, %d of the system's", e.UserMS, e.SystemMS)
	}
}

// TestTheFirstThreadIsKept notices a process whose first thread libcontainer may take into the mount
// namespace of a container.
func TestTheFirstThreadIsKept(t *testing.T) {
	const many = 64 // more than there are threads, so that each idle one is taken
	arrived, leave, used := make(chan int), make(chan struct{}), map[int]bool{}
	defer close(leave)
	for range many {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			arrived <- unix.Gettid()
			<-leave
		}()
	}
	for range many {
		used[<-arrived] = true
	}
	if used[os.Getpid()] || len(used) != many {
		t.Errorf("%d threads, the first among them: %v", len(used), used[os.Getpid()])
	}
}

// TestExitCodeOfADetached notices how rota-init without a channel ends that is taken for another end.
func TestExitCodeOfADetached(t *testing.T) {
	for command, want := range map[string]container.Exit{"exit 85": {Code: 85}, "exit 143": {Signal: 15},
		"exit 255": {Code: 255}, "exit 128": {Code: 128}, "exit 0": {}, "kill -KILL $$": {Signal: 9}} {
		c := &runcContainer{results: make(chan launch.Result), detaching: true, waited: waitFor(t, command)}
		close(c.results)
		if e := c.exit(); e.Code != want.Code || e.Signal != want.Signal {
			t.Errorf("%s: %+v", command, e)
		}
	}
	c := &runcContainer{results: make(chan launch.Result), detaching: true}
	close(c.results)
	if e := c.exit(); e.Signal != 9 {
		t.Errorf("one that never was: %+v", e)
	}
}
