package dev

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// TestMain runs the tests, or what a test starts: rota, or a daemon that is only as much of one as
// rota dev needs.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "rota":
		os.Exit(command.Run(context.Background(), os.Args, command.System(), Commands("sbatch", "squeue")))
	case "sbatch":
		fmt.Println("sbatch", os.Getenv("ROTA_ADDR"), os.Args[1:])
		os.Exit(0)
	case "rota-controld":
		os.Exit(fakeController())
	case "rota-noded":
		os.Exit(fakeNode())
	}
	os.Exit(m.Run())
}

// How a fake daemon behaves, in the environment.
const (
	fakeControllers = "ROTA_TEST_CONTROLLERS" // how many there are
	fakeFailure     = "ROTA_TEST_FAILURE"     // what goes wrong
)

// fakeController answers what rota dev asks, until it is to stop.
func fakeController() int {
	name, socket := flagOf("--name"), flagOf("--socket")
	if os.Getenv(fakeFailure) == "controller" {
		fmt.Println("cannot read the log")
		return 3
	}
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/cluster", func(w http.ResponseWriter, _ *http.Request) {
		n, _ := strconv.Atoi(os.Getenv(fakeControllers))
		c := api.Cluster{Leader: "c1", Controllers: make([]api.Controller, n)}
		if os.Getenv(fakeFailure) == "leader" {
			c.Leader = ""
		}
		answer(w, c)
	})
	mux.HandleFunc("GET /v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		up, _ := filepath.Glob("n*/up")
		answer(w, rotatest.List("NodeList", slices.Repeat([]api.Node{{State: "idle"}}, len(up))...))
	})
	mux.HandleFunc("POST /v1/jobs/cancel", func(w http.ResponseWriter, r *http.Request) {
		if os.Getenv(fakeFailure) == "cancel" {
			api.WriteProblem(w, 403, api.CodeDenied, "not yours")
			return
		}
		body, _ := io.ReadAll(r.Body)
		_ = os.WriteFile(filepath.Join(os.Getenv("HOME"), "cancelled"), body, 0o600)
		answer(w, api.ControlResponse{})
	})
	asked := 0
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
		jobs := []api.Job{{ID: 1, Code: model.Completing}}
		if asked++; asked > 2 {
			jobs = nil
		}
		answer(w, rotatest.List("JobList", jobs...))
	})
	go func() { _ = http.Serve(listener, mux) }()
	return untilTerm(name)
}

// fakeNode is up until it is to stop.
func fakeNode() int {
	if os.Getenv(fakeFailure) == "node" {
		fmt.Println("no cgroups here")
		return 4
	}
	up := filepath.Join(flagOf("--data-dir"), "up")
	if err := os.WriteFile(up, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		fmt.Println(err)
		return 1
	}
	return untilTerm(flagOf("--name"))
}

// untilTerm waits for the signal to stop, and says in the order of the ends that it has.
func untilTerm(name string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	f, err := os.OpenFile(filepath.Join(os.Getenv("HOME"), "ends"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, name)
		f.Close()
	}
	return 0
}

func flagOf(name string) string { return os.Args[slices.Index(os.Args, name)+1] }

// world is a user's directory with a rota program and fake daemons beside it.
type world struct {
	t       *testing.T
	home    string // the working directory
	bin     string
	dir     string // the default --dir
	failure string
	command *exec.Cmd
	stderr  bytes.Buffer
	stdout  *bufio.Reader
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: rota dev makes containers and cgroups")
	}
	home, err := os.MkdirTemp("", "rd") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	w := &world{t: t, home: home, bin: filepath.Join(home, "bin"), dir: filepath.Join(home, "work", ".rota")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(w.bin, 0o755), os.Mkdir(filepath.Join(home, "work"), 0o755),
		os.Chmod(home, 0o755), os.Chmod(filepath.Join(home, "work"), 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rota", "rota-controld", "rota-noded", "rota-shim", "rota-init"} {
		if err := os.Link(self, filepath.Join(w.bin, name)); err != nil {
			t.Skipf("needs hard links: %v", err)
		}
	}
	return w
}

// start runs rota with these arguments.
func (w *world) start(args ...string) {
	w.t.Helper()
	w.command = exec.Command(filepath.Join(w.bin, "rota"), args...)
	w.command.Dir = filepath.Join(w.home, "work")
	n := "1"
	if i := slices.Index(args, "--controllers"); i >= 0 {
		n = args[i+1]
	}
	w.command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ROTA_") || strings.HasPrefix(v, "SUDO_")
	}), "HOME="+w.home, fakeControllers+"="+n, fakeFailure+"="+w.failure)
	w.stderr.Reset()
	w.command.Stderr = &w.stderr
	out, err := w.command.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.stdout = bufio.NewReader(out)
	if err := w.command.Start(); err != nil {
		w.t.Fatal(err)
	}
	cmd := w.command
	w.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
}

// line reads a line of the output.
func (w *world) line() string {
	w.t.Helper()
	line, err := w.stdout.ReadString('\n')
	if err != nil {
		_ = w.command.Wait()
		w.t.Fatalf("no line but %q, %v\n%s", line, err, &w.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// ended waits for the end of rota and returns its exit code and the rest of its output.
func (w *world) ended() (code int, out string) {
	w.t.Helper()
	b, err := io.ReadAll(w.stdout)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.command.Wait(); err != nil && w.command.ProcessState == nil {
		w.t.Fatal(err)
	}
	return w.command.ProcessState.ExitCode(), string(b)
}

// nothingLeft notices daemons that still run and files that are still there.
func (w *world) nothingLeft() {
	w.t.Helper()
	l := devLayout{dir: w.dir}
	if pids := l.strayProcesses(); len(pids) > 0 {
		w.t.Errorf("processes %v are left", pids)
	}
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		w.t.Errorf("%s is left: %v", w.dir, err)
	}
}

// read is a file of the user's home, "" if there is none.
func (w *world) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(w.home, name))
	return string(b)
}

// await waits until something holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: it does not come\n%s", what, &w.stderr)
		}
		time.Sleep(devPoll)
	}
}

// TestDevRunsACommand notices a command without a cluster, an exit code that is lost, and daemons or
// files that stay behind.
func TestDevRunsACommand(t *testing.T) {
	w := newWorld(t)
	w.start("dev", "--controllers", "3", "--nodes", "2", "--", "sh", "-c", "echo $ROTA_ADDR; cat; exit 7")
	code, out := w.ended()
	var socks []string
	for i := range 3 {
		socks = append(socks, fmt.Sprintf("unix:%s/c%d.sock", w.dir, i+1))
	}
	addr := strings.Join(socks, ",")
	if code != 7 || out != addr+"\n" || w.stderr.String() != "ready "+addr+"\n" {
		t.Errorf("exit %d, %q, %s", code, out, &w.stderr)
	}
	ends := strings.Fields(w.read("ends"))
	if len(ends) != 5 || slices.Index(ends, "n1") > 1 || slices.Index(ends, "n2") > 1 {
		t.Errorf("the nodes do not end before the controllers: %v", ends)
	}
	var cancelled api.CancelRequest
	if err := json.Unmarshal([]byte(w.read("cancelled")), &cancelled); err != nil || len(cancelled.States) != 5 ||
		cancelled.Reason != "rota dev stops" {
		t.Errorf("cancelled %s, %v", w.read("cancelled"), err)
	}
	w.nothingLeft()
	for command, want := range map[string]int{"true": 0, "kill -9 $$": 137} {
		w.start("dev", "--", "sh", "-c", command)
		if code, _ := w.ended(); code != want {
			t.Errorf("%s: exit %d\n%s", command, code, &w.stderr)
		}
	}
	w.start("dev", "nosuchprogram", "x")
	if code, out := w.ended(); code != 127 || out != "" || !strings.Contains(w.stderr.String(),
		"rota: run nosuchprogram: exec: \"nosuchprogram\": executable file not found") {
		t.Errorf("exit %d, %q, %s", code, out, &w.stderr)
	}
	w.start("dev", "rota", "dev", "--nodes", "0") // our own programs are found without a PATH
	if code, _ := w.ended(); code != exit.Usage || !strings.Contains(w.stderr.String(),
		"--nodes 0: must be from 1 to 64") {
		t.Errorf("exit %d, %s", code, &w.stderr)
	}
	w.nothingLeft()
}

// TestDevRunsUntilASignal notices a cluster that does not say where it is, ends with an error, or
// cannot be ended.
func TestDevRunsUntilASignal(t *testing.T) {
	w := newWorld(t)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		w.start("dev")
		want := "unix:" + w.dir + "/c1.sock"
		if line := w.line(); line != "ready "+want {
			t.Errorf("%s: %q", s, line)
		}
		if got := w.read("work/.rota/addr"); got != want+"\n" {
			t.Errorf("%s: the address is %q", s, got)
		}
		if err := w.command.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		reach := "rota: commands in " + filepath.Dir(w.dir) + " and below find this cluster; elsewhere: export ROTA_ADDR=" +
			want
		if code, out := w.ended(); code != 0 || out != "" || w.stderr.String() != reach+"\n" {
			t.Errorf("%s: exit %d, %q, %s", s, code, out, &w.stderr)
		}
		w.nothingLeft()
	}
}

// TestDevWithSlurmsNames notices names that a command does not find first, or that a user is not told of,
// and links that stay behind.
func TestDevWithSlurmsNames(t *testing.T) {
	w := newWorld(t)
	addr, dir := "unix:"+w.dir+"/c1.sock", w.dir+"/slurm"
	for _, args := range [][]string{{"sh", "-c", "sbatch -n 1; ls " + dir}, {"sbatch", "-n", "1"}} {
		w.start(append([]string{"dev", "--slurm", "--"}, args...)...)
		want := "sbatch " + addr + " [-n 1]\n"
		if args[0] == "sh" {
			want += "sbatch\nsqueue\n"
		}
		if code, out := w.ended(); code != 0 || out != want || w.stderr.String() != "ready "+addr+"\nslurm "+dir+"\n" {
			t.Errorf("%q: exit %d, %q, %s", args, code, out, &w.stderr)
		}
		w.nothingLeft()
	}
	w.start("dev", "--slurm", "--keep")
	if first, second := w.line(), w.line(); first != "ready "+addr || second != "slurm "+dir {
		t.Errorf("said %q and %q", first, second)
	}
	if err := w.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, _ := w.ended(); code != 0 {
		t.Errorf("exit %d, %s", code, &w.stderr)
	}
	w.start("dev", "--", "sh", "-c", "ls "+dir) // without --slurm the links of the time before are gone
	if code, out := w.ended(); code == 0 || out != "" {
		t.Errorf("exit %d, %q, %s", code, out, &w.stderr)
	}
	w.nothingLeft()
}

// TestDevInUse notices two clusters in one directory.
func TestDevInUse(t *testing.T) {
	w := newWorld(t)
	w.start("dev")
	w.line()
	other := world{t: w.t, home: w.home, bin: w.bin, dir: w.dir, failure: w.failure}
	other.start("dev")
	if code, out := other.ended(); code != exit.Failed || out != "" || !strings.Contains(other.stderr.String(),
		fmt.Sprintf("rota: a dev cluster is already running in %s (process %d): stop it, or choose another --dir", w.dir,
			w.command.Process.Pid)) {
		t.Errorf("exit %d, %q, %s", code, out, &other.stderr)
	}
	if err := w.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, _ := w.ended(); code != 0 {
		t.Errorf("the first one: exit %d, %s", code, &w.stderr)
	}
	w.nothingLeft()
}

// TestDevKept notices a queue that is lost although it was to be kept.
func TestDevKept(t *testing.T) {
	w := newWorld(t)
	w.start("dev", "--keep", "--", "true")
	if code, _ := w.ended(); code != 0 {
		t.Fatalf("exit %d, %s", code, &w.stderr)
	}
	if w.read("work/.rota/dev.json") == "" || w.read("work/.rota/addr") != "" {
		t.Errorf("the record is lost, or the address is still there")
	}
	w.start("dev", "--keep", "--controllers", "3", "--", "true")
	if code, _ := w.ended(); code != exit.Usage || !strings.Contains(w.stderr.String(),
		"rota: "+w.dir+" keeps a cluster of 1 controllers: start it with --controllers 1, or remove the directory") {
		t.Errorf("exit %d, %s", code, &w.stderr)
	}
	var kept devRecord
	if err := json.Unmarshal([]byte(w.read("work/.rota/dev.json")), &kept); err != nil || len(kept.Ports) < portsEach {
		t.Fatalf("the refusal took the record with it: %+v, %v", kept, err)
	}
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", kept.Ports[1]))
	if err != nil {
		t.Fatal(err)
	}
	w.start("dev", "--keep", "--", "true")
	if code, _ := w.ended(); code != exit.Failed || w.stderr.String() != fmt.Sprintf(
		"rota: port %d of the cluster kept in %s is used by another program\n", kept.Ports[1], w.dir) {
		t.Errorf("exit %d, %s", code, &w.stderr)
	}
	taken.Close()
	if err := os.WriteFile(filepath.Join(w.dir, "dev.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start("dev", "--", "true")
	if code, _ := w.ended(); code != exit.Failed || !strings.Contains(w.stderr.String(),
		"rota: cannot read "+w.dir+"/dev.json: unexpected end of JSON input; remove the directory if you do not need it") {
		t.Errorf("exit %d, %s", code, &w.stderr)
	}
}

// TestDevThatDoesNotStart notices a failure without its cause, and daemons that outlive it.
func TestDevThatDoesNotStart(t *testing.T) {
	w := newWorld(t)
	for failure, want := range map[string]string{
		"controller": "rota: c1 ended while starting: exit status 3\nthe end of " + w.dir +
			"/log/c1.log:\n  cannot read the log\n",
		"node": "rota: n1 ended while starting: exit status 4\nthe end of " + w.dir +
			"/log/n1.log:\n  no cgroups here\n",
	} {
		w.failure = failure
		w.start("dev")
		if code, out := w.ended(); code != exit.Failed || out != "" || !strings.HasPrefix(w.stderr.String(), want) {
			t.Errorf("%s: exit %d, %q, %s\nwant %s", failure, code, out, &w.stderr, want)
		}
		w.nothingLeft()
	}
	w.failure = "leader"
	w.start("dev")
	w.await("the node", func() bool { return w.read("work/.rota/n1/up") != "" })
	if err := w.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, _ := w.ended(); code != exit.Interrupted || w.stderr.String() != "rota: terminated: interrupted\n" {
		t.Errorf("ended while it waits for a leader: exit %d, %s", code, &w.stderr)
	}
	w.nothingLeft()
	if err := os.Remove(filepath.Join(w.bin, "rota-shim")); err != nil {
		t.Fatal(err)
	}
	w.start("dev")
	if code, _ := w.ended(); code != exit.Failed || w.stderr.String() != "rota: rota-shim is not beside the rota "+
		"program in "+
		w.bin+": build it with \"make build\"\n" {
		t.Errorf("without a program: exit %d, %s", code, &w.stderr)
	}
	w.nothingLeft()
}

// TestDevDaemonsThatDie notices a daemon that is not started again, and one that is for ever.
func TestDevDaemonsThatDie(t *testing.T) {
	w := newWorld(t)
	w.start("dev")
	w.line()
	pid := func() int { n, _ := strconv.Atoi(w.read("work/.rota/n1/up")); return n }
	for death := range maxDeaths {
		before := pid()
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if death < maxDeaths-1 {
			w.await("a new n1", func() bool { return pid() != before && pid() != 0 })
		}
	}
	code, _ := w.ended()
	if got := w.stderr.String(); code != exit.Failed || strings.Count(got,
		"rota: n1 died (signal: killed) and is restarted\n") !=
		maxDeaths-1 || !strings.Contains(got, "rota: n1 keeps dying: signal: killed\n"+w.dir+"/log/n1.log is empty\n") {
		t.Errorf("exit %d, %s", code, got)
	}
	w.nothingLeft()
}

// TestDevKeepsResults notices results that are removed at the end, and jobs that cannot write where
// they are, without a word.
func TestDevKeepsResults(t *testing.T) {
	w := newWorld(t)
	if err := os.Chmod(filepath.Join(w.home, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	result := filepath.Join(w.dir, "shared", "result")
	w.start("dev", "--", "sh", "-c", "echo 17 > "+result)
	code, _ := w.ended()
	if got := w.stderr.String(); code != 0 || !strings.Contains(got, "rota: jobs of root run as nobody, which cannot "+
		"write to "+filepath.Join(w.home, "work")+": they can write to "+w.dir+"/shared, or use \"chmod o+rwx .\"\n") ||
		!strings.HasSuffix(got, "rota: files that jobs wrote to "+w.dir+"/shared are kept\n") {
		t.Errorf("exit %d, %s", code, got)
	}
	if got := w.read("work/.rota/shared/result"); got != "17\n" {
		t.Errorf("the result is %q", got)
	}
	if list, err := os.ReadDir(w.dir); err != nil || len(list) != 1 {
		t.Errorf("besides it there are %v, %v", list, err)
	}
}

// TestDevForwardsSignals notices a command that does not learn that it is to end.
func TestDevForwardsSignals(t *testing.T) {
	w := newWorld(t)
	w.start("dev", "--", "sh", "-c", "trap 'echo told; exit 5' TERM; echo waits; while :; do sleep 0.05; done")
	if line := w.line(); line != "waits" {
		t.Fatalf("%q", line)
	}
	// Ctrl-C comes from the terminal, to the command too: here it goes to rota dev alone, and nothing happens.
	if err := errors.Join(w.command.Process.Signal(os.Interrupt), w.command.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	if code, out := w.ended(); code != 5 || out != "told\n" {
		t.Errorf("exit %d, %q, %s", code, out, &w.stderr)
	}
	w.nothingLeft()
}

// TestDevJobsThatCannotBeCancelled notices a cluster that does not end then.
func TestDevJobsThatCannotBeCancelled(t *testing.T) {
	w := newWorld(t)
	w.failure = "cancel"
	w.start("dev", "--", "true")
	if code, _ := w.ended(); code != 0 || !strings.Contains(w.stderr.String(),
		"rota: killing the jobs, because they could not be cancelled: not yours\n") {
		t.Errorf("exit %d, %s", code, &w.stderr)
	}
	w.nothingLeft()
}

// TestDevOptions notices an option that is ignored, or refused without saying what is allowed.
func TestDevOptions(t *testing.T) {
	s := rotatest.Session{Commands: func() []*command.Command { return Commands() }, T: t}
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"--controllers 2": "--controllers 2: must be 1, 3 or 5", "--controllers 0": "--controllers 0: must be 1, 3 or 5",
		"--nodes 0": "--nodes 0: must be from 1 to 64", "--nodes 65": "--nodes 65: must be from 1 to 64",
		"--sim-gpus -1": "--sim-gpus -1: must be from 0 to 64", "--sim-gpus 65": "--sim-gpus 65: must be from 0 to 64",
		"--cores -1": "--cores -1: must be from 1 to 4096", "--cores 4097": "--cores 4097: must be from 1 to 4096",
		"--nodes two": "--nodes two: not a whole number",
	} {
		if got := s.Run(append([]string{"dev"}, strings.Fields(args)...)...); got.Code != exit.Usage || got.Stdout != "" ||
			got.Stderr != "rota: "+want+"\n" {
			t.Errorf("rota dev %s: %+v", args, got)
		}
	}
	if left, _ := filepath.Glob(".rota*"); len(left) > 0 {
		t.Errorf("%v was made", left)
	}
	t.Chdir("/")
	if got := s.Run("dev"); got.Code != exit.Usage || !strings.Contains(got.Stderr,
		"/ cannot be shared: change to another directory") {
		t.Errorf("in /: %+v", got)
	}
}

// TestWhatKilledDaemonsLeave notices a mount or a process that outlives its cluster.
func TestWhatKilledDaemonsLeave(t *testing.T) {
	w := newWorld(t)
	l := devLayout{dir: w.dir, id: "dev-test0001"}
	mount := filepath.Join(w.dir, "n1", "a b")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", mount, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	cmd := exec.Command(filepath.Join(w.bin, "rota-noded"), "--name", "n1", "--data-dir", filepath.Join(w.dir, "n1"))
	cmd.Env = append(os.Environ(), "HOME="+w.home)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, root := range cgroupMounts() {
		dir := filepath.Join(root, l.cgroupRoot(0), "7.1.0")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			continue // a hierarchy that is not ours
		}
		dirs = append(dirs, dir)
	}
	other := exec.Command(filepath.Join(w.bin, "rota-noded"), "--name", "n1", "--data-dir", filepath.Join(w.home))
	other.Env = append(os.Environ(), "HOME="+w.home)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	w.await("the daemons", func() bool { return w.read("work/.rota/n1/up") != "" && w.read("up") != "" })
	if got := len(l.cgroupDirs(2)); got != len(dirs) {
		t.Errorf("%d cgroups are found, not %d", got, len(dirs))
	}
	if err := l.removeStrays(1); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the daemon of the cluster: %v", err)
	}
	if err := errors.Join(other.Process.Signal(syscall.SIGTERM), other.Wait()); err != nil {
		t.Errorf("the daemon of another cluster: %v", err)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(b, []byte(w.dir)) {
		t.Errorf("the mount is left: %v", err)
	}
	if got := l.cgroupDirs(2); len(got) > 0 {
		t.Errorf("%v are left", got)
	}
}
