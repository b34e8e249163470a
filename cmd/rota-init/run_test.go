package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// planFile writes a plan, and has this process traceable again after the test.
func planFile(t *testing.T, p launch.Plan) string {
	t.Helper()
	t.Cleanup(func() { check(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) })
	b, err := json.Marshal(p)
	check(t, err)
	path := filepath.Join(t.TempDir(), "launch.json")
	check(t, os.WriteFile(path, b, 0o600))
	return path
}

// runPlan runs a plan in this process. It waits until no child is left: the next plan would
// get its end.
func runPlan(t *testing.T, path string) int {
	t.Helper()
	check(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) // as the first process of a container is
	code := run(path)
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if n := runtime.Stack(stacks, true); !strings.Contains(string(stacks[:n]), "rota-init.awaitEnds(") {
			return code
		} else if time.Now().After(deadline) {
			t.Fatal("children are left")
		}
	}
}

// shell returns ranks that are shell scripts.
func shell(scripts ...string) []launch.Rank {
	var list []launch.Rank
	for i, s := range scripts {
		list = append(list, launch.Rank{Name: fmt.Sprint("rank ", i), Args: []string{"/bin/sh", "-c", s},
			Env: []string{fmt.Sprint("RANK=", i)}})
	}
	return list
}

// TestRanksDoNotInheritTheChannel notices a descriptor that a job could speak to its shim with.
func TestRanksDoNotInheritTheChannel(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0) // without close-on-exec, as it is inherited
	check(t, err)
	defer func() { _ = unix.Close(fds[1]) }()
	t.Setenv(launch.ChannelEnv, fmt.Sprint(fds[0]))
	c := openChannel()
	if c.file == nil || int(c.file.Fd()) != fds[0] {
		t.Fatalf("the channel is %+v", c)
	}
	if flags, err := unix.FcntlInt(c.file.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("ranks inherit it: %d, %v", flags, err)
	}
	check(t, c.file.Close())
	for _, bad := range []string{"", "x"} {
		t.Setenv(launch.ChannelEnv, bad)
		if c := openChannel(); c.file != nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}

// TestHowAWorkerEnds notices exit codes that are lost or those of another rank, and a worker that does
// not wait for all of its ranks.
func TestHowAWorkerEnds(t *testing.T) {
	dir := t.TempDir()
	done := filepath.Join(dir, "done")
	for name, c := range map[string]struct {
		ranks []launch.Rank
		want  int
	}{
		"well":              {shell("exit 0"), 0},
		"a code":            {shell("exit 3"), 3},
		"a signal":          {shell("kill -SEGV $$"), 128 + 11},
		"the slower of two": {shell("exit 0", "sleep 0.2; echo > "+done), 0},
		"the highest":       {shell("exit 2"), 2},
		"no such command":   {[]launch.Rank{{Name: "rank 0", Args: []string{"/no/such"}}}, 127},
		"one of two cannot run": {append(shell("exec sleep 100"), launch.Rank{Name: "rank 1", Args: []string{"/no/such"}}),
			127},
		"one fails for the rest": {shell("exit 9", "exec sleep 100"), 9},
	} {
		begun := time.Now()
		if code := runPlan(t, planFile(t, launch.Plan{Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, Ranks: c.ranks,
			KillTimeout: 20_000})); code != c.want {
			t.Errorf("%s: code %d, not %d", name, code, c.want)
		}
		if took := time.Since(begun); took > 60*time.Second {
			t.Errorf("%s: after %v", name, took)
		}
	}
	if _, err := os.Stat(done); err != nil {
		t.Error("the slower rank was not waited for")
	}
	if code := runPlan(t, filepath.Join(dir, "none")); code != 125 {
		t.Errorf("without a plan: %d", code)
	}
	p := launch.Plan{Dir: dir, Ranks: shell("true"), Secrets: []launch.Secret{{Env: "KEY", File: dir + "/none"}}}
	if code := runPlan(t, planFile(t, p)); code != 125 {
		t.Errorf("without a secret: %d", code)
	}
}

// TestWhatARankSees notices variables of other ranks, a secret that is missing, another directory,
// and a process group that ranks share with this program.
func TestWhatARankSees(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "key"), []byte("secret\n"), 0o400))
	p := launch.Plan{Env: []string{"PATH=/usr/bin:/bin", "A=common", "RANK=none"}, Dir: dir,
		Secrets: []launch.Secret{{Env: "KEY", File: filepath.Join(dir, "key")}},
		Ranks: shell(`echo "$A $KEY $RANK $(pwd)" > out0; [ $(ps -o pgid= -p $$) = $$ ] || echo shared >> out0`,
			`echo "$A $KEY $RANK $(pwd)" > out1`)}
	if code := runPlan(t, planFile(t, p)); code != 0 {
		t.Errorf("code %d", code)
	}
	for i := range 2 {
		b, _ := os.ReadFile(fmt.Sprintf("%s/out%d", dir, i))
		if want := fmt.Sprintf("common secret %d %s\n", i, dir); string(b) != want {
			t.Errorf("rank %d sees %q, not %q", i, b, want)
		}
	}
}

// TestRanksThatDoNotStopAreKilled notices a kill timeout that is not kept, and helpers that survive
// the kill.
func TestRanksThatDoNotStopAreKilled(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	p := launch.Plan{Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, KillTimeout: 400, Ranks: shell(
		"until [ -e ready ]; do sleep 0.01; done; exit 3",
		// the helper's parent is no shell, so that only a kill of the whole group reaches it
		"trap '' TERM; find . -maxdepth 0 -exec sh -c 'echo $$ > helper; exec sleep 900' \\; & "+
			"until [ -s helper ]; do sleep 0.01; done; echo > ready; while :; do sleep 0.1; done")}
	if code := runPlan(t, planFile(t, p)); code != 3 {
		t.Errorf("code %d", code)
	}
	if took := time.Since(begun); took < 380*time.Millisecond {
		t.Errorf("killed after %v", took)
	}
	var helper int
	b, err := os.ReadFile(filepath.Join(dir, "helper"))
	check(t, err)
	_, err = fmt.Sscan(string(b), &helper)
	check(t, err)
	defer func() { _ = unix.Kill(helper, unix.SIGKILL) }() // it has ended unless the test fails
	waitForEnd(t, helper)
}

// waitForEnd waits until a process has ended, whether its parent knows or not.
func waitForEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("process %d goes on", pid)
		}
	}
}

// TestSignalsOfTheShimAreDelivered notices signals that do not reach the ranks, and results that do
// not reach the shim.
func TestSignalsOfTheShimAreDelivered(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	shim := os.NewFile(uintptr(fds[1]), "shim")
	kept = append(kept, shim) // its end would end this process
	t.Setenv(launch.ChannelEnv, fmt.Sprint(fds[0]))
	dir := t.TempDir()
	code := make(chan int)
	path := planFile(t, launch.Plan{Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, KillTimeout: 10_000,
		Ranks: shell(`trap 'exit 85' USR1; echo > ready; while :; do sleep 0.05; done`)})
	go func() { code <- runPlan(t, path) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the rank does not start")
		}
	}
	_, err = shim.WriteString("{\"signal\":10}\n")
	check(t, err)
	if got := <-code; got != 85 {
		t.Errorf("code %d", got)
	}
	lines := bufio.NewReader(shim)
	begun, err := lines.ReadString('\n')
	if line, more := lines.ReadString('\n'); err != nil || more != nil || begun != begunLine ||
		strings.TrimSpace(line) != `{"code":85}` {
		t.Errorf("the shim hears %q and %q, %v, %v", begun, line, err, more)
	}
}

// TestAShimThatDies notices a container that outlives its shim: the end of the channel ends this
// program, and with the first process all others end.
func TestAShimThatDies(t *testing.T) {
	if os.Getenv("ROTA_TEST_ORPHAN") != "" {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		check(t, err)
		check(t, unix.Close(fds[1]))
		channel{os.NewFile(uintptr(fds[0]), "init")}.listen(nil)
		os.Exit(0)
	}
	self, err := os.Executable()
	check(t, err)
	p, err := os.StartProcess(self, []string{self, "-test.run", "^TestAShimThatDies$"},
		&os.ProcAttr{Env: append(os.Environ(), "ROTA_TEST_ORPHAN=1")})
	check(t, err)
	state, err := p.Wait()
	if err != nil || state.ExitCode() != 125 {
		t.Errorf("ended with %v, %v", state, err)
	}
}

// TestTheProcessTable notices shells that are taken for programs, and parents that are read wrong.
func TestTheProcessTable(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a) b (c")
	check(t, os.Symlink("/bin/sleep", odd))
	var pids []int
	script := filepath.Join(t.TempDir(), "train") // the name of its process is train
	check(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 100\n"), 0o755))
	named := filepath.Join(t.TempDir(), "sh") // and of this one sh
	check(t, os.Symlink("/bin/sleep", named))
	for _, args := range [][]string{{odd, "100"}, {"/bin/sh", "-c", "sleep 100; true"}, {script}, {named, "100"}} {
		p, err := os.StartProcess(args[0], args, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
		check(t, err)
		defer func() { _, _ = p.Wait() }()
		defer func() { _ = unix.Kill(-p.Pid, unix.SIGKILL) }()
		pids = append(pids, p.Pid)
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		table := processes()
		program, shell := process{parent: os.Getpid()}, process{parent: os.Getpid(), shell: true}
		got := []process{table[pids[0]], table[pids[1]], table[pids[2]], table[pids[3]]}
		if slices.Equal(got, []process{program, shell, shell, program}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v below %d", got, os.Getpid())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestSignalsOfARank notices a kill that ends the shell alone.
func TestSignalsOfARank(t *testing.T) {
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 100; true"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{Setpgid: true}})
	check(t, err)
	r := &rank{pid: p.Pid, alive: true, signalled: map[int]bool{}}
	for deadline := time.Now().Add(5 * time.Second); len(r.programs(processes())) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("the shell runs nothing")
		}
	}
	r.signal(unix.SIGCONT, "", processes())
	if r.sent != unix.SIGCONT || len(r.signalled) != 1 || r.signalled[p.Pid] {
		t.Errorf("signalled %v with %v", r.signalled, r.sent)
	}
	(&rank{pid: p.Pid, alive: true, done: true}).signal(unix.SIGKILL, "", processes()) // one that is done gets none
	if unix.Kill(p.Pid, 0) != nil {
		t.Fatal("a rank that is done was killed")
	}
	r.signal(unix.SIGKILL, "", nil)
	_, err = p.Wait()
	check(t, err)
	for pid := range r.signalled {
		waitForEnd(t, pid)
	}
}

// TestWhichProcessesGetASignal runs a script that says what it hears, and so does the program that it
// runs, and tells parts of it of the time limit.
func TestWhichProcessesGetASignal(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 for a program that is no shell")
	}
	const says = "trap 'echo %[1]s >>%[2]s/heard' USR1; touch %[2]s/%[1]s; while [ ! -e %[2]s/over ]; do sleep 0.01; done"
	for to, want := range map[string]string{"": "program\nshell\n", launch.ToScript: "shell\n",
		launch.ToPrograms: "program\n"} {
		dir := t.TempDir()
		program := "#!/usr/bin/env python3\nimport os, signal, time\n" +
			"def hear(*_):\n    open('" + dir + "/heard', 'a').write('program\\n')\n" +
			"signal.signal(signal.SIGUSR1, hear)\nopen('" + dir + "/program', 'w')\n" +
			"while not os.path.exists('" + dir + "/over'):\n    time.sleep(0.01)\n"
		check(t, os.WriteFile(dir+"/train", []byte(program), 0o755))
		script := dir + "/train & " + fmt.Sprintf(strings.ReplaceAll(says, "sleep 0.01", "wait"), "shell", dir)
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
			Files: []*os.File{nil, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}})
		check(t, err)
		await := func(what string, come func() bool) {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Second); !come(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("to %q: %s", to, what)
				}
			}
		}
		there := func(name string) bool { _, err := os.Stat(dir + "/" + name); return err == nil }
		await("they do not begin", func() bool { return there("shell") && there("program") })
		r := &rank{pid: p.Pid, alive: true, signalled: map[int]bool{}}
		r.signal(unix.SIGUSR1, to, processes())
		heard := func() string {
			b, _ := os.ReadFile(dir + "/heard")
			lines := strings.SplitAfter(string(b), "\n")
			slices.Sort(lines)
			return strings.Join(lines, "")
		}
		await("they hear nothing", func() bool { return len(heard()) >= len(want) })
		check(t, os.WriteFile(dir+"/over", nil, 0o600))
		_, err = p.Wait()
		check(t, err)
		if got := heard(); got != want {
			t.Errorf("to %q: %q, want %q", to, got, want)
		}
	}
	alone := &rank{pid: 7, alive: true}
	for _, to := range []string{"", launch.ToScript, launch.ToPrograms} {
		if !alone.isFor(to, 7, map[int]process{7: {}}) {
			t.Errorf("a rank that is no shell does not get what is for %q", to)
		}
	}
}

// TestHold: a plan without ranks waits for a signal, and ends well.
func TestHold(t *testing.T) {
	if path := os.Getenv("HOLD"); path != "" {
		os.Exit(run(path))
	}
	c := exec.Command(os.Args[0], "-test.run=^TestHold$")
	c.Env = append(os.Environ(), "HOLD="+planFile(t, launch.Plan{Hold: true}))
	check(t, c.Start())
	status := fmt.Sprintf("/proc/%d/status", c.Process.Pid)
	ready := func() bool { // it ignores SIGCHLD once it takes signals
		b, err := os.ReadFile(status)
		check(t, err)
		_, mask, _ := strings.Cut(string(b), "SigIgn:\t")
		var ignored uint64
		_, err = fmt.Sscanf(mask, "%x", &ignored)
		check(t, err)
		return ignored&(1<<(unix.SIGCHLD-1)) != 0
	}
	for deadline := time.Now().Add(10 * time.Second); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not wait")
		}
	}
	check(t, c.Process.Signal(unix.SIGUSR1))
	check(t, c.Wait())
}

// TestARankKnowsItsProcess notices a rank that is told the id of another process, one that runs in
// another directory or with other arguments, and a program that cannot be started without its code.
func TestARankKnowsItsProcess(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/here", []byte("#!/bin/sh\necho $TASK $$ $1 $MINE >> out\n"), 0o755))
	check(t, os.WriteFile(dir+"/broken", []byte("#!/no/such/interpreter\n"), 0o755))
	check(t, os.WriteFile(dir+"/closed", nil, 0o644))
	for args, want := range map[string]int{"./here x": 0, "./broken x": 127, "./closed x": 126, "./none x": 127,
		"false x": 1} {
		path := planFile(t, launch.Plan{Dir: dir, PIDVariable: "TASK", Env: []string{"MINE=it's mine", "PATH=/bin"},
			Ranks: []launch.Rank{{Name: "task 0", Args: strings.Fields(args)}}})
		if got := runPlan(t, path); got != want {
			t.Errorf("%s: exit code %d, not %d", args, got, want)
		}
	}
	b, err := os.ReadFile(dir + "/out")
	words := strings.Fields(string(b))
	if err != nil || len(words) != 5 || words[0] != words[1] || words[2] != "x" || words[3] != "it's" {
		t.Errorf("it says %q, %v", b, err)
	}
}
