package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// exited and killed are wait statuses as the kernel gives them.
func exited(code int) unix.WaitStatus      { return unix.WaitStatus(code << 8) }
func killed(s unix.Signal) unix.WaitStatus { return unix.WaitStatus(s) }
func gang(ranks ...*rank) *worker          { return &worker{plan: planOf(len(ranks)), ranks: ranks} }
func planOf(n int) *launch.Plan {
	return &launch.Plan{Ranks: make([]launch.Rank, n), KillTimeout: 1000}
}
func living(pid int) *rank                  { return &rank{pid: pid, alive: true, signalled: map[int]bool{}} }
func ended(pid int, s unix.WaitStatus) exit { return exit{pid: pid, status: s} }
func told(r *rank, s unix.Signal, pids ...int) *rank {
	r.sent = s
	for _, pid := range pids {
		r.signalled[pid] = true
	}
	return r
}

// noSuchPID is above what the kernel gives out, so that signals to it reach no process.
const noSuchPID = 1 << 23

func TestTheFirstFailureDecides(t *testing.T) {
	for name, c := range map[string]struct {
		ends []unix.WaitStatus // in this order, rank by rank
		want launch.Result
		stop bool
	}{
		"all well":              {[]unix.WaitStatus{exited(0), exited(0)}, launch.Result{}, false},
		"one fails":             {[]unix.WaitStatus{exited(0), exited(3)}, launch.Result{Code: 3}, true},
		"the rest is not asked": {[]unix.WaitStatus{exited(3), exited(9)}, launch.Result{Code: 3}, true},
		"nor if it is killed":   {[]unix.WaitStatus{exited(1), killed(unix.SIGTERM)}, launch.Result{Code: 1}, true},
		"a signal": {[]unix.WaitStatus{killed(unix.SIGSEGV), exited(1)},
			launch.Result{Signal: int(unix.SIGSEGV)}, true},
		"one alone": {[]unix.WaitStatus{exited(7)}, launch.Result{Code: 7}, false},
	} {
		w := gang()
		for i := range c.ends {
			w.ranks = append(w.ranks, living(noSuchPID+i))
		}
		w.plan = planOf(len(c.ends))
		for i, s := range c.ends {
			if !w.running() {
				t.Errorf("%s: over before rank %d has ended", name, i)
			}
			w.noteExit(ended(noSuchPID+i, s))
		}
		if w.running() || w.result != c.want || w.stopping != c.stop || (w.kill != nil) != c.stop {
			t.Errorf("%s: %+v, stopping %t, running %t", name, w.result, w.stopping, w.running())
		}
	}
}

func TestARankWhoseShellWasStoppedEndsWithItsProgram(t *testing.T) {
	const shell, gone = noSuchPID, noSuchPID + 1
	program := os.Getpid() // a process that exists
	for name, c := range map[string]struct {
		rank *rank
		ends []exit
		want launch.Result
		over bool
	}{
		"the program's code counts": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(shell, killed(unix.SIGTERM)), ended(program, exited(85))}, launch.Result{Code: 85}, true},
		"its script never came to the end": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(shell, killed(unix.SIGTERM)), ended(program, exited(0))}, launch.Result{Signal: 15}, true},
		"its shell's end is told later": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(program, exited(85)), ended(shell, killed(unix.SIGTERM))}, launch.Result{Code: 85}, true},
		"its shell dies of something else": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(program, exited(85)), ended(shell, killed(unix.SIGSEGV))}, launch.Result{Signal: 11}, true},
		"it is waited for": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(shell, killed(unix.SIGTERM))}, launch.Result{Signal: 15}, false},
		"it dies of it too": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(shell, killed(unix.SIGTERM)), ended(program, killed(unix.SIGTERM))}, launch.Result{Signal: 15},
			true},
		"its shell saw it end": {told(living(shell), unix.SIGTERM, gone),
			[]exit{ended(shell, killed(unix.SIGTERM))}, launch.Result{Signal: 15}, true},
		"the shell ends by itself": {told(living(shell), unix.SIGTERM, program), []exit{ended(shell, exited(4))},
			launch.Result{Code: 4}, true},
		"the shell goes on": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(program, exited(85)), ended(shell, exited(85))}, launch.Result{Code: 85}, true},
		"its program is killed in the end": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(shell, killed(unix.SIGTERM)), ended(program, killed(unix.SIGKILL))}, launch.Result{Signal: 15},
			true},
		"another signal": {told(living(shell), unix.SIGTERM, program),
			[]exit{ended(shell, killed(unix.SIGSEGV))}, launch.Result{Signal: 11}, true},
		"an orphan is nothing": {living(shell), []exit{ended(noSuchPID+9, exited(1))}, launch.Result{}, false},
		"only the first end counts": {living(shell), []exit{ended(shell, exited(2)), ended(shell, exited(3))},
			launch.Result{Code: 2}, true},
	} {
		for _, e := range c.ends {
			c.rank.noteExit(e)
		}
		if c.rank.result != c.want || c.rank.done != c.over {
			t.Errorf("%s: %+v, over %t", name, c.rank.result, c.rank.done)
		}
	}
}

func TestSignalsGoToProgramsBelowShells(t *testing.T) {
	table := map[int]process{
		// 13: what a program started
		10: {parent: 1, shell: true}, 11: {parent: 10, shell: true}, 12: {parent: 11}, 13: {parent: 12},
		20: {parent: 1}, 21: {parent: 20}, 30: {parent: 1, shell: true},
	}
	for _, c := range []struct {
		rank *rank
		want []int
	}{
		{living(10), []int{10, 11, 12}},
		{living(20), []int{20}},
		{&rank{pid: 10, signalled: map[int]bool{12: true}}, []int{12}},
		{&rank{pid: 10, signalled: map[int]bool{}}, nil},
	} {
		if got := c.rank.programs(table); !slices.Equal(got, c.want) {
			t.Errorf("rank %d: %v, want %v", c.rank.pid, got, c.want)
		}
	}
}

func TestWhichSignalsArePassedOn(t *testing.T) {
	for s, want := range map[syscall.Signal]bool{
		unix.SIGTERM: true, unix.SIGUSR1: true, unix.SIGINT: true, unix.SIGHUP: true, unix.SIGCONT: true,
		unix.SIGCHLD: false, unix.SIGURG: false, unix.SIGPIPE: false, unix.SIGTTIN: false, unix.SIGTTOU: false,
	} {
		if isForwarded(s) != want {
			t.Errorf("%v: %t", s, !want)
		}
	}
}

func TestCommandsAreFoundAsAShellDoes(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o755, "b/tool": 0o755, "b/data": 0o644, "tool": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	a, b := dir+"/a", dir+"/b"
	for _, c := range []struct {
		name, want, says string
		env              []string
	}{
		{"tool", a + "/tool", "", []string{"PATH=" + a + ":" + b}},
		{"tool", b + "/tool", "", []string{"PATH=" + a, "PATH=" + b}}, // the rank's own comes last and wins
		{"tool", dir + "/tool", "", []string{"PATH=:" + a}},
		{"./x/y", "./x/y", "", nil},
		{"b", "", "not found", []string{"PATH=" + dir}}, // a directory
		{"data", "", "permission", []string{"PATH=" + b}},
		{"tool", "", "not found", nil},
	} {
		got, err := lookPath(c.name, c.env, dir)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s in %v: %q, %v", c.name, c.env, got, err)
		}
	}
}

func TestARankThatCannotBeStarted(t *testing.T) {
	for _, c := range []struct {
		command string
		code    int
		says    string
	}{
		{"no-such-command", 127, "no-such-command: command not found in PATH (/bin)"},
		{"/no/such/file", 127, "/no/such/file: no such file or directory"},
		{"/etc/passwd", 126, "/etc/passwd: permission denied"}, {"/", 126, "/: permission denied"},
	} {
		var r *rank
		said := stderrOf(t, func() {
			w := &worker{plan: &launch.Plan{Env: []string{"PATH=/bin"}, Dir: "/", Ranks: make([]launch.Rank, 1)}}
			r = w.start(&launch.Rank{Name: "rank 0", Args: []string{c.command}},
				rankFiles{os.Stdin, os.Stdout, os.Stderr}, nil)
		})
		if !r.done || r.result.Code != c.code || said != "rota-init: rank 0: "+c.says+"\n" {
			t.Errorf("%s: %+v, want %d; the user reads %q", c.command, r.result, c.code, said)
		}
	}
}

// TestACommandThatIsNotFound notices a message without the PATH that was searched, and the advice to
// export PATH where the job already has its own.
func TestACommandThatIsNotFound(t *testing.T) {
	const advice = "; your shell's PATH is not copied: export = [\"PATH\"] in a job file and --export PATH of rota run " +
		"copy it"
	const own = launch.BinDir + ":" + launch.DefaultPath
	for path, says := range map[string]string{
		"": "command not found: PATH is empty", "/v/bin:/bin": "command not found in PATH (/v/bin:/bin)",
		launch.DefaultPath: "command not found in PATH (" + launch.DefaultPath + ")" + advice,
		own:                "command not found in PATH (" + own + ")" + advice,
	} {
		_, err := lookPath("no-such-command", []string{"PATH=" + path}, "/")
		if err == nil || reasonOf(err) != says || !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// stderrOf returns what f writes to this program's stderr.
func stderrOf(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	old := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = old }()
	f()
	b, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWhatIsMissingIsNamed shows that a missing directory is not reported as a missing shell, nor a
// missing interpreter as a missing script.
func TestWhatIsMissingIsNamed(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	for _, c := range []struct{ text, dir, want string }{
		{"#!/bin/sh\n", filepath.Join(dir, "none"), "cannot enter the working directory " + dir +
			"/none on this node: no such file or directory"},
		{"#!/usr/bin/none -u\n", dir, `script: its interpreter "/usr/bin/none": no such file or directory`},
		{"#!/bin/sh\r\necho\r\n", dir, `script: its interpreter "/bin/sh\r": no such file or directory; the ` +
			`lines of the script end with CR LF, as on Windows`},
		{"no script", dir, "script: exec format error"},
	} {
		if err := os.WriteFile(script, []byte(c.text), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := os.StartProcess(script, []string{script},
			&os.ProcAttr{Dir: c.dir, Sys: &syscall.SysProcAttr{Setpgid: true}})
		if err == nil {
			t.Fatalf("%q was started", c.text)
		}
		if got := startFailure("script", script, c.dir, err); got != c.want {
			t.Errorf("got %s", got)
		}
	}
}

func TestThePlanIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.json")
	if _, err := read(path); err == nil || !strings.Contains(err.Error(), "read launch plan") {
		t.Errorf("without a file: %v", err)
	}
	for text, says := range map[string]string{"{": "damaged", `{"ranks":[]}`: "no ranks"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestItsJobCannotTraceIt notices a rota-init that its job may trace: the ranks run as the same user.
// A job could make it report a success, or ignore every signal.
func TestItsJobCannotTraceIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.json")
	if err := os.WriteFile(path, []byte(`{"ranks":[{"args":["true"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dumpable := func() int {
		n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := dumpable()
	defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0) }()
	if p, err := read(path); err != nil || len(p.Ranks) != 1 {
		t.Fatalf("got %+v, %v", p, err)
	}
	if got := dumpable(); got != 0 {
		t.Errorf("PR_GET_DUMPABLE is %d", got)
	}
	if os.Geteuid() != 0 { // root sees everything all the same
		if _, err := os.ReadFile("/proc/self/environ"); !os.IsPermission(err) {
			t.Errorf("the environment is readable: %v", err)
		}
	}
}

// envRun makes the test program a rota-init with this plan, as the first process of its own tree, and
// envMain the whole program.
const (
	envRun  = "ROTA_TEST_RUN"
	envMain = "ROTA_TEST_MAIN"
)

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" || len(os.Args) > 1 && os.Args[1] == launch.TaskArgument {
		main()
	}
	if path := os.Getenv(envRun); path != "" {
		// orphans come to it, as they do to the first process of a container
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		if text := os.Getenv(launch.ExecEnv); text != "" {
			os.Exit(execute(path, text))
		}
		os.Exit(run(path))
	}
	os.Exit(m.Run())
}

// initRun is a rota-init that runs as a program of its own.
type initRun struct {
	t    *testing.T
	cmd  *exec.Cmd
	shim *os.File
	from *bufio.Reader // what it sends to the shim
	out  *bufio.Reader
	said *strings.Builder // on stderr
}

// runInit starts rota-init with ranks that each run a script; with a channel if that is asked for.
func runInit(t *testing.T, plan *launch.Plan, channel bool, scripts ...string) *initRun {
	t.Helper()
	for i, script := range scripts {
		plan.Ranks = append(plan.Ranks, launch.Rank{Name: fmt.Sprint("rank ", i), Args: []string{"/bin/sh", "-c", script},
			Env: []string{fmt.Sprint("RANK=", i)}})
	}
	plan.Env, plan.Dir = append(plan.Env, "PATH=/usr/bin:/bin", "RANK=none"), "/"
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "launch.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &initRun{t: t, cmd: exec.Command(os.Args[0]), said: &strings.Builder{}}
	r.cmd.Stderr = r.said
	r.cmd.Env = append(os.Environ(), envRun+"="+path)
	if channel {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(fds[0], true); err != nil {
			t.Fatal(err)
		}
		theirs := os.NewFile(uintptr(fds[1]), "init")
		defer theirs.Close()
		r.shim = os.NewFile(uintptr(fds[0]), "shim")
		r.from = bufio.NewReader(r.shim)
		r.cmd.ExtraFiles = []*os.File{theirs}
		r.cmd.Env = append(r.cmd.Env, launch.ChannelEnv+"=3")
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { _ = r.cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		_ = r.cmd.Process.Kill() // it has ended unless the test failed
		if r.shim != nil {
			r.shim.Close()
		}
	})
	return r
}

// order sends a signal as the shim does.
func (r *initRun) order(s unix.Signal) {
	r.t.Helper()
	if _, err := fmt.Fprintf(r.shim, "{\"signal\":%d}\n", int(s)); err != nil {
		r.t.Fatal(err)
	}
}

// line returns the next line of output.
func (r *initRun) line() string {
	line, _ := r.out.ReadString('\n') // the end of the output is an empty line
	return strings.TrimSuffix(line, "\n")
}

// begunLine is what the shim is told before the first rank is executed.
const begunLine = "{\"code\":0,\"begun\":true}\n"

// result returns what the shim is told at the end, and the exit code.
func (r *initRun) result() (launch.Result, int) {
	r.t.Helper()
	var result launch.Result
	if r.shim != nil {
		if err := r.shim.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			r.t.Fatal(err)
		}
		line, err := r.from.ReadBytes('\n')
		if string(line) == begunLine {
			line, err = r.from.ReadBytes('\n')
		}
		if err != nil || json.Unmarshal(line, &result) != nil {
			r.t.Errorf("the shim is told %q, %v", line, err)
		}
	}
	_ = r.cmd.Wait() // the state says how it ended
	return result, r.cmd.ProcessState.ExitCode()
}

// TestTheResultOfTheRanks notices a rank's exit that is lost on the way to the shim, or that the
// exit code does not have when there is no shim.
func TestTheResultOfTheRanks(t *testing.T) {
	for _, c := range []struct {
		scripts []string
		want    launch.Result
		code    int
	}{
		{[]string{"exit 0"}, launch.Result{}, 0}, {[]string{"exit 3"}, launch.Result{Code: 3}, 3},
		{[]string{"kill -SEGV $$"}, launch.Result{Signal: 11}, 139},
		{[]string{"exit 0", "exit 5", "exec sleep 1000"}, launch.Result{Code: 5}, 5},
		{[]string{"test $RANK = 0 && test -z \"$ROTA_INIT_CHANNEL\""}, launch.Result{}, 0},
		{[]string{`set -- $(cat /proc/$$/stat); test "$5" = $$`}, launch.Result{}, 0}, // a process group of its own
		{[]string{"ls -l /proc/self/fd | grep -c socket"}, launch.Result{Code: 1}, 1}, // the ranks have no channel
	} {
		for _, channel := range []bool{true, false} {
			got, code := runInit(t, &launch.Plan{KillTimeout: 60_000}, channel, c.scripts...).result()
			if channel && got != c.want {
				t.Errorf("%v: the shim is told %+v", c.scripts, got)
			}
			if code != c.code {
				t.Errorf("%v, channel %v: exit code %d", c.scripts, channel, code)
			}
		}
	}
}

// TestAScriptThatWasKilledIsNoSuccess notices a rank that takes the exit 0 of a program whose shell was
// killed: what the script says after that program never ran.
func TestAScriptThatWasKilledIsNoSuccess(t *testing.T) {
	for leaves, want := range map[int]launch.Result{0: {Signal: 15, Asked: true}, 85: {Code: 85, Asked: true}} {
		r := runInit(t, &launch.Plan{}, true, fmt.Sprintf(
			"/bin/sh -c 'trap \"exit %d\" TERM; echo ready; while :; do sleep 0.02; done'; echo the rest", leaves))
		if got := r.line(); got != "ready" {
			t.Fatalf("it says %q", got)
		}
		if _, err := fmt.Fprintln(r.shim, `{"signal":15,"stop":true}`); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.result(); got != want {
			t.Errorf("a program that leaves with %d: %+v", leaves, got)
		}
	}
}

// TestAStubbornRankIsKilled notices a rank that outlives a failed one, or that is killed in another
// unit of time.
func TestAStubbornRankIsKilled(t *testing.T) {
	begin, ready := time.Now(), filepath.Join(t.TempDir(), "ready")
	r := runInit(t, &launch.Plan{KillTimeout: 300}, true, "trap '' TERM; echo >"+ready+"; while :; do sleep 0.02; done",
		"while [ ! -e "+ready+" ]; do sleep 0.02; done; exit 4")
	got, _ := r.result()
	if took := time.Since(begin); got != (launch.Result{Code: 4}) || took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("%+v after %v", got, took)
	}
}

// TestHelpersOfAStubbornRankAreKilled notices a helper of a program that outlives it.
func TestHelpersOfAStubbornRankAreKilled(t *testing.T) {
	r := runInit(t, &launch.Plan{KillTimeout: 300}, true,
		`exec timeout --foreground 1000 /bin/sh -c 'trap "" TERM; echo $$; exec sleep 900 >/dev/null 2>&1'`,
		"sleep 0.5; exit 4")
	helper, err := strconv.Atoi(r.line())
	if err != nil {
		t.Skipf("no helper was started: %v", err)
	}
	defer func() { _ = unix.Kill(helper, unix.SIGKILL) }() // it has ended unless the test fails
	if got := r.line(); got != "" {                        // the end of the output: no process has it any more
		t.Errorf("it says %q", got)
	}
	if got, _ := r.result(); got != (launch.Result{Code: 4}) {
		t.Errorf("the shim is told %+v", got)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) { // on a busy machine a killed process may end later
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", helper))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("the helper lives: %s", stat)
		}
	}
}

// TestOrdersOfTheShimReachTheRanks notices a signal that is another one when it arrives.
func TestOrdersOfTheShimReachTheRanks(t *testing.T) {
	r := runInit(t, &launch.Plan{}, true, "trap 'echo usr1' USR1; trap 'exit 85' TERM; echo ready; "+
		"while :; do sleep 0.02; done")
	if got := r.line(); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	r.order(unix.SIGUSR1)
	if got := r.line(); got != "usr1" {
		t.Errorf("after SIGUSR1 it says %q", got)
	}
	if err := r.cmd.Process.Signal(unix.SIGUSR1); err != nil { // of another process, such as runc
		t.Fatal(err)
	}
	if got := r.line(); got != "usr1" {
		t.Errorf("after a signal to rota-init it says %q", got)
	}
	r.order(unix.SIGTERM)
	if got, _ := r.result(); got != (launch.Result{Code: 85}) {
		t.Errorf("the shim is told %+v", got)
	}
}

// TestNothingRunsWithoutPlanOrSecrets notices ranks that are started although a secret is missing,
// and a success that nothing has earned.
func TestNothingRunsWithoutPlanOrSecrets(t *testing.T) {
	r := runInit(t, &launch.Plan{Secrets: []launch.Secret{{Env: "KEY", File: "/none/key"}}}, false, "echo started")
	if line := r.line(); line != "" {
		t.Errorf("it says %q", line)
	}
	if _, code := r.result(); code != 125 || !strings.HasPrefix(r.said.String(),
		"rota-init: read the secret for KEY: open /none/key: no such file or directory\n") {
		t.Errorf("without a secret the exit code is %d; the user reads %q", code, r.said)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRun+"=/none/launch.json")
	out, _ := cmd.CombinedOutput() // the state says how it ended
	if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(string(out), "read launch plan") {
		t.Errorf("without a plan the exit code is %d: %s", code, out)
	}
}

// TestWithoutItsShimItEnds notices a container that runs on when its shim was killed.
func TestWithoutItsShimItEnds(t *testing.T) {
	r := runInit(t, &launch.Plan{}, true, "echo ready; exec sleep 8")
	if got := r.line(); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	if err := r.shim.Close(); err != nil {
		t.Fatal(err)
	}
	r.shim = nil
	if _, code := r.result(); code != 125 { // its program would end with 0, later
		t.Errorf("exit code %d", code)
	}
}

// TestAUserThatStartsItByHand notices a program that takes arguments for a container's, and one that
// needs an argument.
func TestAUserThatStartsItByHand(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--help"}, 0, "not meant to be started by hand"}, {[]string{"-h"}, 0, "not meant to be started by hand"},
		{[]string{"help"}, 0, "not meant to be started by hand"},
		{[]string{"--frob"}, 2, `argument "--frob" is not expected`},
		{[]string{"--help", "me"}, 2, `argument "--help" is not expected`}, {nil, 125, "read launch plan"},
	} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = append(os.Environ(), envMain+"=1")
		out, _ := cmd.CombinedOutput() // the state says how it ended
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, out)
		}
	}
}

// TestAProcessBesideTheRanks notices one that does not start beside a worker without ranks, or where the
// directory of its job is not on the node.
func TestAProcessBesideTheRanks(t *testing.T) {
	dir, home, none := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "none")
	rank := []launch.Rank{{Name: "rank 0", Env: []string{"RANK=0"}}}
	for _, c := range []struct {
		plan launch.Plan
		dir  string // that is asked for
		says string
		code int
	}{
		{plan: launch.Plan{Hold: true, Dir: dir}, says: "rank in " + dir},
		{plan: launch.Plan{Dir: dir, Ranks: rank}, says: "rank 0 in " + dir},
		{plan: launch.Plan{Dir: none, Anywhere: true, Home: home, Ranks: rank}, says: "rank 0 in " + home},
		{plan: launch.Plan{Dir: none, Anywhere: true, Home: home, Ranks: rank}, dir: dir, says: "rank 0 in " + dir},
		{plan: launch.Plan{Dir: dir, Anywhere: true, Home: home, Ranks: rank}, dir: none, says: none, code: 126},
		{plan: launch.Plan{Dir: none, Home: home, Ranks: rank}, says: none, code: 126},
	} {
		text, err := json.Marshal(c.plan)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "launch.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		what, err := json.Marshal(launch.Exec{Args: []string{"/bin/sh", "-c", "echo rank $RANK in $(pwd)"}, Dir: c.dir})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envRun+"="+path, launch.ExecEnv+"="+string(what))
		out, _ := cmd.CombinedOutput() // the state says how it ended
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("%+v: exit code %d: %s", c, code, out)
		}
	}
}

// TestAKilledJobIsNoSuccess notices a worker that was killed and whose shim cannot be told: the exit
// code has to say so.
func TestAKilledJobIsNoSuccess(t *testing.T) {
	r := runInit(t, &launch.Plan{}, true, "trap 'kill -SEGV $$' USR1; echo ready; while :; do sleep 0.02; done")
	if got := r.line(); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	raw, err := r.shim.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RD) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.order(unix.SIGUSR1)
	_ = r.cmd.Wait() // the state says how it ended
	if code := r.cmd.ProcessState.ExitCode(); code != 128+11 {
		t.Errorf("exit code %d", code)
	}
}

// TestWaitingForChildrenCostsNothing notices ends that no process has had: rota-init would ask the
// kernel again and again for as long as the job runs.
func TestWaitingForChildrenCostsNothing(t *testing.T) {
	cmd := exec.Command("/bin/cat") // until its input ends
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, over := make(chan struct{}), make(chan struct{})
	go func() { defer close(over); awaitEnds(ended, nil) }()
	stacks := make([]byte, 1<<20)
	for asks := false; !asks; { // the kernel is asked before the process ends
		for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			asks = asks || strings.Contains(g, "rota-init.awaitEnds(") && !strings.Contains(g, "[runnable]")
		}
	}
	in.Close()
	for own := false; !own; { // an earlier test may have left some
		select {
		case <-ended:
		case <-over:
			t.Fatal("its end was not told")
		}
		e, ok := reap()
		own = ok && e.pid == cmd.Process.Pid
		if own && e.status.ExitStatus() != 0 {
			t.Errorf("it ended with %d", e.status)
		}
	}
	for { // the end of this function gives the children back
		select {
		case <-ended:
			reap()
		case <-over:
			return
		}
	}
}

// TestAProgramThatIsWaitedForIsLeftAlone notices a second signal, other than the one that was passed
// on, when the shell of a program has died.
func TestAProgramThatIsWaitedForIsLeftAlone(t *testing.T) {
	cmd := exec.Command("/bin/cat") // until its input ends
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := told(living(noSuchPID), unix.SIGTERM, cmd.Process.Pid)
	if r.noteExit(ended(noSuchPID, killed(unix.SIGTERM))) {
		t.Error("the rank is done before its program")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
}

// TestTheRestOfTheProcessTable notices a table that ends at a process that has just ended, and one
// whose program the kernel does not name.
func TestTheRestOfTheProcessTable(t *testing.T) {
	proc := t.TempDir()
	for pid, text := range map[int]string{0: "", 1: "x", 2: ") 1 (", 3: "1 (sh)", 4: "1 (a) b (sh) S 7 1",
		5: "1 (train) S 8 1", 6: "1 (sh) S 9 1"} {
		dir := fmt.Sprintf("%s/%d", proc, noSuchPID+pid)
		if pid == 0 { // its file cannot be read any more
			dir += "/stat"
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if pid == 0 {
			continue
		}
		if err := os.WriteFile(dir+"/stat", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int]process{noSuchPID + 4: {parent: 7}, noSuchPID + 5: {parent: 8},
		noSuchPID + 6: {parent: 9, shell: true}}
	if got := processesBelow(proc); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAnErrorNamesNoSecret notices a secret's value in what rota-init says.
func TestAnErrorNamesNoSecret(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/key", []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &launch.Plan{Secrets: []launch.Secret{{Env: "A", File: dir + "/key"}, {Env: "B", File: dir + "/none"}}}
	if err := readSecrets(p); err == nil || strings.Contains(err.Error(), "hunter2") ||
		!strings.HasPrefix(err.Error(), "read the secret for B: ") {
		t.Errorf("got %v", err)
	}
}

func TestTheChannelCarriesOrdersAndTheResult(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, shim := os.NewFile(uintptr(fds[0]), "init"), os.NewFile(uintptr(fds[1]), "shim")
	// Both stay open to the end of the test program: the end of the channel ends the process, as it
	// must in a container.
	t.Cleanup(func() { kept = append(kept, ours, shim) })
	signals := make(chan launch.Order, 4)
	go channel{ours}.listen(signals)
	orders := "rubbish\n{\"signal\":0}\n{\"signal\":1}\n{\"signal\":10,\"to\":\"script\"}\n"
	if _, err := shim.WriteString(orders); err != nil {
		t.Fatal(err)
	}
	orderly := []launch.Order{{Signal: 1}, {Signal: 10, To: launch.ToScript}}
	if got := []launch.Order{<-signals, <-signals}; !reflect.DeepEqual(got, orderly) {
		t.Errorf("orders %v", got)
	}
	want := launch.Result{Code: 3}
	channel{ours}.send(want)
	line, err := bufio.NewReader(shim).ReadBytes('\n')
	var got launch.Result
	if err != nil || json.Unmarshal(line, &got) != nil || got != want {
		t.Errorf("result %s, %v", line, err)
	}
	channel{}.send(want) // without a shim
}

var kept []*os.File

func TestSecretsBecomeVariables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a b\nc\r\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	p := &launch.Plan{Env: []string{"A=1"}, Secrets: []launch.Secret{{Env: "KEY", File: file}}}
	if err := readSecrets(p); err != nil || !slices.Equal(p.Env, []string{"A=1", "KEY=a b\nc"}) {
		t.Errorf("got %q, %v", p.Env, err)
	}
	p.Secrets[0].File += "-missing"
	if err := readSecrets(p); err == nil || !strings.Contains(err.Error(), "KEY") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestExplain(t *testing.T) {
	var out, errs strings.Builder
	if code := answerArguments([]string{"--help"}, &out, &errs); code != 0 ||
		!strings.Contains(out.String(), "first process of every container") || errs.Len() > 0 {
		t.Errorf("--help: %d %q %q", code, &out, &errs)
	}
	out.Reset()
	if code := answerArguments([]string{"--frob"}, &out, &errs); code != 2 ||
		!strings.Contains(errs.String(), "--frob") || out.Len() > 0 {
		t.Errorf("--frob: %d %q %q", code, &out, &errs)
	}
}

// TestSeverity notices a death by a signal that counts as less than an exit code.
func TestSeverity(t *testing.T) {
	for _, c := range []struct {
		result launch.Result
		want   int
	}{{launch.Result{}, 0}, {launch.Result{Code: 85}, 85}, {launch.Result{Signal: 15}, 143},
		{launch.Result{Code: 3, Signal: 9}, 137}} {
		if got := severity(c.result); got != c.want {
			t.Errorf("%+v: %d", c.result, got)
		}
	}
}

// TestDetachedFromItsShim notices a rota-init that keeps its socket, or ends with it, and signals that are
// lost from then on.
func TestDetachedFromItsShim(t *testing.T) {
	runtime.LockOSThread() // the kernel ends what has detached with the thread that has started it
	defer runtime.UnlockOSThread()
	r := runInit(t, &launch.Plan{}, true, "trap 'echo usr1' USR1; trap 'exit 85' TERM; echo ready; "+
		"while :; do sleep 0.02; done")
	if got := r.line(); got != "ready" {
		t.Fatalf("got %q", got)
	}
	if _, err := fmt.Fprintln(r.shim, `{"detach":true}`); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(r.from); err != nil || string(said) != begunLine+"{\"code\":0,\"detached\":true}\n" {
		t.Errorf("got %q, %v", said, err)
	}
	for _, s := range []os.Signal{unix.SIGUSR1, unix.SIGTERM} {
		if err := r.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if got := r.line(); s == unix.SIGUSR1 && got != "usr1" {
			t.Errorf("got %q", got)
		}
	}
	_ = r.cmd.Wait() // the state says how it ended
	if code := r.cmd.ProcessState.ExitCode(); code != 85 {
		t.Errorf("exit code %d", code)
	}
}

// TestWhereAJobBegins shows where the ranks of a job begin, and their HOME, where the directories that
// it has of its user are not on the node.
func TestWhereAJobBegins(t *testing.T) {
	dir, home, none := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		plan                launch.Plan
		dir, env, saysAbout string
	}{
		{launch.Plan{Dir: dir, Home: home, Env: []string{"A=1", "HOME=" + home}}, dir, "A=1 HOME=" + home, ""},
		{launch.Plan{Dir: none, Home: none, Env: []string{"HOME=" + none, "A=1"}}, none, "A=1 HOME=/tmp", ""},
		{launch.Plan{Dir: none, Env: []string{"HOME=" + none}}, none, "HOME=" + none, ""}, // it is the job's own
		{launch.Plan{Dir: dir, Anywhere: true, Home: home}, dir, "HOME=" + home, ""},
		{launch.Plan{Dir: none, Anywhere: true, Home: home}, home, "HOME=" + home, none},
		{launch.Plan{Dir: none, Anywhere: true, Home: none}, "/tmp", "HOME=/tmp", none},
		{launch.Plan{Dir: none, Anywhere: true}, "/tmp", "", none},
	} {
		said := stderrOf(t, func() { settle(&c.plan) })
		want := ""
		if c.saysAbout != "" {
			want = "rota-init: cannot enter the working directory " + c.saysAbout +
				" on this node: no such file or directory; the job runs in " + c.dir + " instead\n"
		}
		if c.plan.Dir != c.dir || strings.Join(c.plan.Env, " ") != c.env || said != want {
			t.Errorf("it begins in %s with %v, and says %q", c.plan.Dir, c.plan.Env, said)
		}
	}
}
