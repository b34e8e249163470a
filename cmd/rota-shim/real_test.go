package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

var one = container.ID{Job: 1, Attempt: 1}

func want(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !slices.Contains(strings.Split(out, "\n"), line) {
			t.Errorf("output lacks %q:\n%s", line, out)
		}
	}
}

// task changes the task of every bundle that is made from now on.
func (n *node) task(f func(*jobspec.Task)) {
	n.mutate = func(in *oci.Input) { f(&in.Alloc.Spec.Groups[0].Tasks[0]) }
}

func TestIsolation(t *testing.T) {
	n := newNode(t, 0)
	exit, out := n.run(one, `
echo "id $(id -u) $(id -g) $(id -G)"
touch /usr/x 2>/dev/null || echo "usr is read-only"
touch /x 2>/dev/null || echo "root is read-only"
touch /tmp/x && echo "tmp is writable"
test -e /work -o -e /root -o -e /mnt || echo "host is hidden"
grep CapEff /proc/self/status
grep NoNewPrivs /proc/self/status
pwd
touch made-here
echo "pid 1 is $(cat /proc/1/comm)"
echo "$ROTA_JOB_ID $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES"
echo '{"step":1}' >> $ROTA_PROGRESS_FILE
touch /run/rota/evil 2>/dev/null || echo "run is fenced"
stat -f -c %T /dev/shm
exit 3`)
	if exit.Code != 3 {
		t.Errorf("exit %+v", exit)
	}
	want(t, out, "id 23456 23457 23457 24000", "usr is read-only", "root is read-only", "tmp is writable",
		"host is hidden",
		"CapEff:\t0000000000000000", "NoNewPrivs:\t1", n.shared, "pid 1 is init", "1 1 ", "run is fenced", "tmpfs")
	info, err := os.Stat(filepath.Join(n.shared, "made-here"))
	check(t, err)
	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(n.shared, info.Name()), &st))
	if st.Uid != testUID || st.Gid != testGID {
		t.Errorf("file made by the job belongs to %d:%d", st.Uid, st.Gid)
	}
	progress, err := os.ReadFile(container.ProgressPath(n.shims.Path(one)))
	check(t, err)
	if string(progress) != "{\"step\":1}\n" {
		t.Errorf("progress file holds %q", progress)
	}
}

func TestLimits(t *testing.T) {
	needsLimits(t)
	n := newNode(t, 0)
	n.mutate = func(in *oci.Input) { in.Node.Cores = []int{1} }
	_, out := n.run(one, `nproc; echo "in $(`+inCgroup()+`)"`)
	want(t, out, "1", "in "+cgroupRoot+"/1.1.0")
	two := container.ID{Job: 2, Attempt: 1}
	n.task(func(task *jobspec.Task) { task.Resources.Memory = 64 * jobspec.MiB })
	exit, out := n.run(two, `exec python3 -c "x = b'x' * (200 << 20)"`)
	if !exit.OOM || exit.Signal != 9 || exit.PeakMem < 60<<20 || exit.PeakMem > 64<<20 {
		t.Errorf("a job over its memory: %+v\n%s", exit, out)
	}
}

func TestPids(t *testing.T) {
	n := newNode(t, 0)
	dir := n.bundle(one, `for i in $(seq 30); do sleep 100 & done`)
	editSpec(t, dir, func(s *specs.Spec) { limit := int64(20); s.Linux.Resources.Pids.Limit = &limit })
	check(t, n.shims.Create(t.Context(), one, dir, time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	eventually(t, "fork fails", func() bool {
		return strings.Contains(n.output(one),
			"Resource temporarily unavailable")
	})
	check(t, n.shims.Kill(t.Context(), one))
	n.await(one)
}

func editSpec(t *testing.T, dir string, f func(*specs.Spec)) {
	t.Helper()
	b, err := os.ReadFile(container.ConfigPath(dir))
	check(t, err)
	var s specs.Spec
	check(t, json.Unmarshal(b, &s))
	f(&s)
	b, err = json.Marshal(&s)
	check(t, err)
	check(t, os.WriteFile(container.ConfigPath(dir), b, 0o600))
}

// TestDeviceFence needs no GPU: a granted node without a driver gives ENXIO, a fenced one EPERM.
// The container is root with CAP_MKNOD here, which no job is, so that it can make the nodes of
// others.
func TestDeviceFence(t *testing.T) {
	n := newNode(t, 0)
	n.mutate = func(in *oci.Input) {
		for i := range 4 {
			in.Node.GPUs = append(in.Node.GPUs, model.GPU{UUID: fmt.Sprint("GPU-", i), Minor: i})
		}
		in.Alloc.GPUs = []int{2}
		in.Alloc.Owner.UID, in.Alloc.Owner.GID = 0, 0
	}
	dir := n.bundle(one, `
ls /dev | grep nvidia
try() { python3 -c 'import os,sys,errno
try: os.open(sys.argv[1],os.O_RDWR); print(sys.argv[2],"opened")
except OSError as e: print(sys.argv[2],errno.errorcode[e.errno])' $1 $2; }
try /dev/nvidia2 own
for i in 0 1 3; do mknod /dev/x$i c 195 $i; try /dev/x$i other$i; done
mknod /dev/mytun c 10 200; try /dev/mytun tun`)
	editSpec(t, dir, func(s *specs.Spec) {
		for _, set := range []*[]string{&s.Process.Capabilities.Bounding, &s.Process.Capabilities.Permitted,
			&s.Process.Capabilities.Effective, &s.Process.Capabilities.Inheritable, &s.Process.Capabilities.Ambient} {
			*set = []string{"CAP_MKNOD", "CAP_DAC_OVERRIDE"}
		}
		s.Process.User.AdditionalGids = nil
		for i := range s.Mounts {
			s.Mounts[i].Options = slices.DeleteFunc(s.Mounts[i].Options,
				func(o string) bool { return s.Mounts[i].Destination == "/dev" && o == "nodev" })
		}
	})
	check(t, n.shims.Create(t.Context(), one, dir, time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.await(one)
	want(t, n.output(one), "nvidia2", "own ENXIO", "other0 EPERM", "other1 EPERM", "other3 EPERM", "tun EPERM")
}

func TestRotation(t *testing.T) {
	n := newNode(t, 0)
	n.log = container.LogFiles{Join: true, MaxSize: 1 << 20, Keep: 2}
	n.run(one, "head -c 10M /dev/zero | tr '\\0' 'x'; echo; echo end >&2")
	files, err := filepath.Glob(filepath.Join(container.LogDir(n.shims.Path(one)), "*"))
	check(t, err)
	if len(files) != 3 {
		t.Errorf("log files: %v", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1<<20 {
			t.Errorf("%s: %v %v", f, info.Size(), err)
		}
	}
	if out := n.output(one); !strings.HasSuffix(out, "\nend\n") {
		t.Errorf("the newest file ends with %q", out[max(0, len(out)-20):])
	}
}

func TestUserLogs(t *testing.T) {
	n := newNode(t, 0)
	n.log = container.LogFiles{Stdout: filepath.Join(n.shared, "logs", "out"), Stderr: filepath.Join(n.shared, "err")}
	exit, _ := n.run(one, "echo hello; echo oops >&2")
	for path, text := range map[string]string{n.log.Stdout: "hello\n", n.log.Stderr: "oops\n"} {
		b, err := os.ReadFile(path)
		var st unix.Stat_t
		_ = unix.Stat(path, &st)
		if err != nil || string(b) != text || st.Uid != testUID || st.Gid != testGID {
			t.Errorf("%s holds %q of %d:%d, %v; exit %+v", path, b, st.Uid, st.Gid, err, exit)
		}
	}
	n.log.Stdout = filepath.Join(filepath.Dir(n.shared), "not-the-users", "out")
	two := container.ID{Job: 2, Attempt: 1}
	err := n.shims.Create(t.Context(), two, n.bundle(two, "true"), time.Now().Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a log where the user may not write: %v", err)
	}
	if _, err := os.Stat(n.log.Stdout); err == nil {
		t.Error("root wrote where the user could not")
	}
}

func TestFullDisk(t *testing.T) {
	n := newNode(t, 0)
	small := filepath.Join(n.shared, "small")
	check(t, os.Mkdir(small, 0o777))
	check(t, unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k,mode=1777"))
	t.Cleanup(func() { check(t, unix.Unmount(small, 0)) })
	n.log = container.LogFiles{Join: true, Stdout: filepath.Join(small, "out")}
	exit, _ := n.run(one, "head -c 1M /dev/zero; exit 6")
	if exit.Code != 6 || exit.LogLost < 900<<10 ||
		exit.Lost().Why() != "no space left on device" {
		t.Errorf("with a full disk: %+v", exit)
	}
}

func TestErrorsOfCreate(t *testing.T) {
	n := newNode(t, 0)
	for i, test := range []struct {
		want string
		edit func(*specs.Spec)
	}{
		{"no such file or directory", func(s *specs.Spec) { s.Root.Path = "/nowhere" }},
		{"/nothing", func(s *specs.Spec) { s.Process.Args = []string{"/nothing"} }},
		{"/nowhere", func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/tmp/x", Type: "bind", Source: "/nowhere",
				Options: []string{"bind"}})
		}},
	} {
		id := container.ID{Job: int64(10 + i), Attempt: 1}
		dir := n.bundle(id, "true")
		editSpec(t, dir, test.edit)
		err := n.shims.Create(t.Context(), id, dir, time.Now().Add(time.Hour))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v does not say %q", err, test.want)
		}
		check(t, n.shims.Remove(t.Context(), id))
	}
}

// TestShimKilledAlone kills the shim while no daemon runs: the container must end by itself.
func TestShimKilledAlone(t *testing.T) {
	n := newNode(t, 0)
	check(t, n.shims.Create(t.Context(), one, n.bundle(one,
		"trap '' TERM HUP; setsid sleep 1000 & echo ready; sleep 1000"), time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.ready(t, one)
	procs := countsProcesses(cgroupRoot + "/1.1.0/cgroup.procs")
	if b, err := os.ReadFile(procs); err != nil || len(b) == 0 {
		t.Fatalf("its processes are not in its cgroup: %q, %v", b, err)
	}
	check(t, n.shims.Close())
	n.killShim(t, one)
	eventually(t, "every process is gone", func() bool { b, _ := os.ReadFile(procs); return len(b) == 0 })
	n.open(0)
	if s := n.await(one); s.State != container.Lost {
		t.Errorf("found as %+v", s)
	}
}

// TestNothingFillsTheNodesDisk shows that a job may write only its progress in its own bundle, and
// that this file is emptied when it is large.
func TestNothingFillsTheNodesDisk(t *testing.T) {
	n := newNode(t, 0)
	script := `cd /run/rota
for f in launch.json script; do chmod u+w $f 2>/dev/null; echo more >> $f || echo $f cannot be written; done
echo '{"step":1}' >> $ROTA_PROGRESS_FILE
head -c 70000000 /dev/zero >> $ROTA_PROGRESS_FILE
echo ready
while [ $(stat -c %s $ROTA_PROGRESS_FILE) -gt 100 ]; do sleep 0.1; done
echo '{"step":2}' >> $ROTA_PROGRESS_FILE`
	_, out := n.run(one, "#!/bin/bash\n"+script)
	want(t, out, "launch.json cannot be written", "script cannot be written", "ready")
	if got := read(t, container.ProgressPath(n.shims.Path(one))); got != "{\"step\":2}\n" {
		t.Errorf("%d bytes of progress are left", len(got))
	}
}

// TestRemoveEndsWhatIsLeft shows that Remove ends what is left in a container's cgroup.
func TestRemoveEndsWhatIsLeft(t *testing.T) {
	n := newNode(t, 0)
	n.run(one, "exit 0")
	left := countsProcesses(cgroupRoot + "/1.1.0")
	check(t, os.MkdirAll(left, 0o755))
	stray := exec.Command("sleep", "1000")
	check(t, stray.Start())
	check(t, os.WriteFile(filepath.Join(left, "cgroup.procs"), fmt.Append(nil, stray.Process.Pid), 0))
	check(t, n.shims.Remove(t.Context(), one)) // the end of the test checks that its cgroup is gone
	if _, state, _ := strings.Cut(read(t, fmt.Sprintf("/proc/%d/stat", stray.Process.Pid)), ") "); state[0] != 'Z' {
		t.Errorf("the stray process has state %q", state[0])
		check(t, stray.Process.Kill())
	}
	_ = stray.Wait() // it was killed
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	return string(b)
}

// TestSignalsReachPrograms shows that a shell's program gets the signal itself, and time to react,
// because a shell passes no signal on.
func TestSignalsReachPrograms(t *testing.T) {
	n := newNode(t, 0)
	check(t, os.WriteFile(filepath.Join(n.shared, "p.py"), []byte(`
import os, signal, sys, time
helper = os.fork()
if helper == 0:
    signal.signal(signal.SIGTERM, lambda *a: (os.write(1, b"helper was signalled\n"), os._exit(1)))
    time.sleep(1000)
def stop(*a):
    time.sleep(0.3)
    os.write(1, b"saved\n") # print may be at work yet on what was printed last
    os._exit(85)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True: time.sleep(1000)
`), 0o644))
	check(t, n.shims.Create(t.Context(), one, n.bundle(one, "python3 p.py; echo not reached"),
		time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.ready(t, one)
	check(t, n.shims.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	if s := n.await(one); s.Exit == nil || s.Exit.Code != 85 {
		t.Errorf("ended as %+v", s.Exit)
	}
	if out := n.output(one); !strings.Contains(out, "saved") || strings.Contains(out, "helper was signalled") ||
		strings.Contains(out, "not reached") {
		t.Errorf("output:\n%s", out)
	}
}

func TestRanks(t *testing.T) {
	n := newNode(t, 0)
	n.task(func(task *jobspec.Task) { task.Launch = &jobspec.Launch{Type: "slurm", Nproc: 3} })
	exit, out := n.run(one, `echo "rank $RANK of $WORLD_SIZE"; if [ $SLURM_PROCID = 1 ]; then exit 9; fi; exec `+
		`sleep 1000`)
	if exit.Code != 9 {
		t.Errorf("exit %+v", exit)
	}
	want(t, out, "rank 1 of 3")
	for command, code := range map[string]int{"no-such-command": 127, "/etc/passwd": 126} {
		id := container.ID{Job: int64(code), Attempt: 1}
		n.task(func(task *jobspec.Task) { task.Script, task.Command = "", []string{command} })
		if exit, out := n.run(id, ""); exit.Code != code || !strings.Contains(out, command) {
			t.Errorf("%s: %+v\n%s", command, exit, out)
		}
	}
}

// TestRuncRunsTheBundle shows that the bundle on disk is an ordinary OCI bundle.
func TestRuncRunsTheBundle(t *testing.T) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("runc is not installed")
	}
	n := newNode(t, 0)
	dir := n.bundle(one, "echo from runc; exit 4")
	out, err := exec.Command(runc, "--root", t.TempDir(), "run", "--bundle", dir, "rota-test-"+
		strconv.Itoa(os.Getpid())).CombinedOutput()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if code != 4 || !strings.Contains(string(out), "from runc") {
		t.Errorf("runc run: %d %v\n%s", code, err, out)
	}
	check(t, n.shims.Remove(t.Context(), one))
}

func TestTornExitRecord(t *testing.T) {
	n := newNode(t, 0)
	n.run(one, "exit 5")
	check(t, os.WriteFile(filepath.Join(n.shims.Path(one), "exit.json"), []byte(`{"code":5,"us`), 0o600))
	check(t, n.shims.Close())
	n.open(0)
	if s := n.await(one); s.State != container.Lost || !strings.Contains(s.Why, "damaged") {
		t.Errorf("found as %+v", s)
	}
}

// BenchmarkTrue is the bare rate of shims: create, start, `true`, exit record, remove.
func BenchmarkTrue(b *testing.B) {
	for _, warm := range []int{0, 4} {
		for _, workers := range []int{1, 8} {
			b.Run(fmt.Sprintf("warm=%d/parallel=%d", warm, workers), func(b *testing.B) { benchmark(b, warm, workers) })
		}
	}
}

func benchmark(b *testing.B, warm, workers int) {
	n := newNode(b, warm)
	n.task(func(task *jobspec.Task) { task.Command = []string{"true"} })
	var mu sync.Mutex
	ended := map[container.ID]chan struct{}{}
	go func() {
		for id := range n.shims.Changes() {
			mu.Lock()
			if c := ended[id]; c != nil && n.over(id) {
				close(c)
				delete(ended, id)
			}
			mu.Unlock()
		}
	}()
	var took []time.Duration
	jobs := make(chan container.ID)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for id := range jobs {
				done := make(chan struct{})
				mu.Lock()
				ended[id] = done
				mu.Unlock()
				begin := time.Now()
				check(b, n.shims.Create(b.Context(), id, n.bundle(id, ""), time.Now().Add(time.Hour)))
				check(b, n.shims.Start(b.Context(), id))
				<-done
				check(b, n.shims.Remove(b.Context(), id))
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		jobs <- container.ID{Job: int64(i + 1), Attempt: 1}
	}
	close(jobs)
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "containers/s")
}

// TestAJobCannotTraceItsFirstProcess does what a job would do to read the secrets of rota-init, or to
// speak to the shim in its name. It notices the planted bug "rota-init is traceable by its job".
func TestAJobCannotTraceItsFirstProcess(t *testing.T) {
	n := newNode(t, 0)
	_, out := n.run(one, `
ls /proc/1/fd > /dev/null 2>&1 || echo "its descriptors are closed"
cat /proc/1/environ > /dev/null 2>&1 || echo "its environment is closed"
(echo '{"code":0}' > /proc/1/fd/3) 2>/dev/null || echo "its channel is closed"
python3 -c '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
if libc.ptrace(PTRACE_SEIZE, 1, None, None) < 0: print("it cannot be traced")
try: open("/proc/1/mem", "rb").read(1)
except OSError: print("its memory is closed")
' || true
exit 3`)
	want(t, out, "its descriptors are closed", "its environment is closed", "its channel is closed", "it cannot be traced",
		"its memory is closed")
}

func (n *node) over(id container.ID) bool {
	list, _ := n.shims.List(n.t.Context())
	return slices.ContainsFunc(list, func(s container.Status) bool { return s.ID == id && s.Exit != nil })
}

// TestHelp shows that a user that starts the programs by hand learns what they are for.
func TestHelp(t *testing.T) {
	for program, says := range map[string]string{"rota-shim": "supervises the containers of one worker",
		"rota-init": "first process of every container"} {
		out, err := exec.Command(filepath.Join(binaries, program), "--help").Output()
		if err != nil || !strings.Contains(string(out), says) {
			t.Errorf("%s --help: %v\n%s", program, err, out)
		}
		var exit *exec.ExitError
		if err := exec.Command(filepath.Join(binaries, program), "--frob").Run(); !errors.As(err, &exit) ||
			exit.ExitCode() != 2 {
			t.Errorf("%s --frob: %v", program, err)
		}
	}
}
