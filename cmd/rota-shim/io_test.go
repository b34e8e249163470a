package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// started creates and starts a container.
func (n *node) started(id container.ID, script string) {
	n.t.Helper()
	check(n.t, n.shims.Create(context.Background(), id, n.bundle(id, script), time.Now().Add(time.Hour)))
	check(n.t, n.shims.Start(context.Background(), id))
}

// talk is a connection to the IO socket, and what came over it.
type talk struct {
	t     *testing.T
	conn  *stream.Conn
	got   map[uint32]string // output by task
	exits map[uint32]stream.StepTaskExit
	at    int64 // offset in the output
	end   *stream.StepEnd
}

func (n *node) opened(t *testing.T, id container.ID, r container.IORequest) *talk {
	t.Helper()
	c, err := n.shims.OpenIO(t.Context(), id, r)
	check(t, err)
	late := time.AfterFunc(60*time.Second, func() { c.Close() })
	t.Cleanup(func() {
		late.Stop()
		c.Close()
	})
	return &talk{t: t, conn: c, got: map[uint32]string{}, exits: map[uint32]stream.StepTaskExit{}}
}

func (n *node) attach(t *testing.T, id container.ID, from int64) *talk {
	t.Helper()
	return n.opened(t, id, container.IORequest{Attach: &container.IOAttach{From: from}})
}

func (n *node) execute(t *testing.T, id container.ID, e container.Exec) *talk {
	t.Helper()
	return n.opened(t, id, container.IORequest{Exec: &e})
}

// step takes one frame, and acknowledges it. It is false at the end of the connection.
func (w *talk) step() bool {
	w.t.Helper()
	f, err := w.conn.Read()
	if err != nil {
		if w.end == nil {
			w.t.Fatalf("the connection ended: %v; so far: %.500q", err, w.got[0])
		}
		return false
	}
	w.at += f.Counts()
	switch f.Kind {
	case stream.Stdout, stream.Stderr:
		w.got[f.Task] += string(f.Data)
	case stream.Exit:
		var e stream.StepTaskExit
		check(w.t, json.Unmarshal(f.Data, &e))
		w.exits[f.Task] = e
	case stream.End:
		w.end = &stream.StepEnd{}
		check(w.t, json.Unmarshal(f.Data, w.end))
	case stream.Begun:
		var b container.IOBegun
		check(w.t, json.Unmarshal(f.Data, &b))
		w.at = b.From
	}
	if f.Counts() > 0 {
		_ = w.conn.Write(stream.Number(w.at)) // behind the last frame the shim may be gone
	}
	return true
}

// until reads until a text has come.
func (w *talk) until(text string) {
	w.t.Helper()
	for !strings.Contains(w.got[0], text) {
		if !w.step() {
			w.t.Fatalf("%q never comes: %q, %+v", text, w.got[0], w.end)
		}
	}
}

// all reads to the end.
func (w *talk) all() stream.StepEnd {
	w.t.Helper()
	for w.step() {
	}
	return *w.end
}

func (w *talk) types(text string) {
	w.t.Helper()
	check(w.t, w.conn.Write(stream.Frame{Kind: stream.Stdin, Task: 0, Data: []byte(text)}))
}

// TestOutputArrivesOnce has readers lose their connections while more is written than the shim keeps.
func TestOutputArrivesOnce(t *testing.T) {
	n := newNode(t, 0)
	n.io = &container.IO{}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	n.started(one, "seq 1 1500000; touch "+n.shared+"/written; echo $((1/0))")
	var want strings.Builder
	for i := range 1_500_000 {
		fmt.Fprintln(&want, i+1)
	}
	var got bytes.Buffer
	at, last := int64(0), false
	for !last {
		c, err := n.shims.OpenIO(t.Context(), one, container.IORequest{Attach: &container.IOAttach{From: at}})
		check(t, err)
		for frames := random.IntN(150); frames >= 0; frames-- {
			f, err := c.Read()
			check(t, err)
			if at += f.Counts(); f.Kind == stream.Stdout {
				got.Write(f.Data)
			}
			if got.Len() < want.Len()-5<<20 { // the rest does not fit into what is kept
				if _, err := os.Stat(n.shared + "/written"); err == nil {
					t.Fatalf("the program was not held back at byte %d", at)
				}
			}
			last = f.Kind == stream.End
			if last || random.IntN(2) == 0 { // what is not acknowledged is kept, and a lost connection repeats nothing
				check(t, c.Write(stream.Number(at)))
			}
			if last { // the shim hangs up when the end is acknowledged
				break
			}
		}
		c.Close()
	}
	if got.String() != want.String() {
		t.Errorf("%d bytes have come of %d, or they are others", got.Len(), want.Len())
	}
	if s := n.await(one); s.Exit == nil || s.Exit.Code == 0 {
		t.Errorf("%+v", s)
	}
}

// TestInputArrivesOnce has a program read what a sender sends through a proxy that dies now and then.
func TestInputArrivesOnce(t *testing.T) {
	n := newNode(t, 0)
	n.io = &container.IO{}
	n.started(one, "exec cat")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	in := stream.NewInput(stream.AllTasks)
	go func() {
		_, _ = in.Write(want) // what arrives tells
		in.End()
	}()
	var got []byte
	var at int64
	var end *stream.StepEnd
	for end == nil {
		c := throughProxy(t, filepath.Join(n.shims.Path(one), "io.sock"), 50_000+random.Int64N(400_000))
		check(t, c.WriteJSON(stream.Request, 0, container.IORequest{Attach: &container.IOAttach{From: at}}))
		for resumed := false; end == nil; {
			f, err := c.Read()
			if err != nil {
				break
			}
			at += f.Counts()
			switch f.Kind {
			case stream.Ack:
				taken, err := f.Offset()
				check(t, err)
				if !resumed {
					check(t, in.Resume(c, taken))
				} else {
					check(t, in.Taken(taken))
				}
				resumed = true
			case stream.Stdout:
				got = append(got, f.Data...)
			case stream.End:
				end = &stream.StepEnd{}
				check(t, json.Unmarshal(f.Data, end))
			}
			_ = c.Write(stream.Number(at)) // the proxy may die
		}
		c.Close()
	}
	if !bytes.Equal(got, want) || end.Code != 0 {
		t.Errorf("%d bytes have come of %d, or they are others; %+v", len(got), len(want), end)
	}
	n.await(one)
}

// throughProxy connects to a socket through another connection, which breaks when so many bytes have
// gone through it.
func throughProxy(t *testing.T, path string, most int64) *stream.Conn {
	t.Helper()
	behind, err := net.Dial("unix", path)
	check(t, err)
	front, ours := net.Pipe()
	left := make(chan int64, 1)
	left <- most
	pass := func(to, from net.Conn) {
		defer front.Close()
		defer behind.Close()
		b := make([]byte, 4096)
		for {
			k, err := from.Read(b)
			rest := <-left - int64(k)
			left <- rest
			if err != nil || rest < 0 {
				return
			}
			if _, err := to.Write(b[:k]); err != nil {
				return
			}
		}
	}
	go pass(front, behind)
	go pass(behind, front)
	return stream.New(ours)
}

func TestRanksHavePipesOfTheirOwn(t *testing.T) {
	n := newNode(t, 0)
	n.io = &container.IO{}
	n.task(func(task *jobspec.Task) { task.Launch = &jobspec.Launch{Type: "slurm", Nproc: 3} })
	n.started(one, `read line; echo "$SLURM_PROCID hears $line" >/dev/stdout; echo oops >&2
[ $SLURM_PROCID = 0 ] && trap 'exit 7' USR1 && { echo armed; while :; do sleep 0.05; done; }; exit 0`)
	w := n.attach(t, one, 0)
	check(t, w.conn.Write(stream.Frame{Kind: stream.Stdin, Task: stream.AllTasks, Data: []byte("all\n")}))
	w.until("armed")
	check(t, w.conn.Write(stream.Frame{Kind: stream.Signal, Task: 0, Data: []byte("SIGUSR1")}))
	end := w.all()
	if end.Code != 7 || len(w.exits) != 3 || w.exits[0].Code != 7 || w.exits[2].Code != 0 {
		t.Errorf("%+v, %+v", end, w.exits)
	}
	for i := range uint32(3) {
		if got := w.got[i]; !strings.Contains(got, fmt.Sprintf("%d hears all\n", i)) || !strings.Contains(got, "oops\n") {
			t.Errorf("rank %d: %q", i, got)
		}
	}
	if s := n.await(one); s.Exit == nil || s.Exit.Code != 7 {
		t.Errorf("%+v", s)
	}
	if out := n.output(one); out != "" {
		t.Errorf("the log has %q", out)
	}
}

func TestARankWithATerminal(t *testing.T) {
	n := newNode(t, 0)
	n.io, n.terminal = &container.IO{}, &launch.Terminal{Rows: 33, Columns: 101}
	n.started(one, "PS1='$ ' exec bash --norc --noprofile -i")
	w := n.attach(t, one, 0)
	w.until("$ ")
	w.types("stty size; tty; echo over-0\r")
	w.until("over-0\r\n")
	w.until("33 101\r\n")
	w.until("/dev/pts/0\r\n")
	check(t, w.conn.Write(stream.Size(0, 50, 132)))
	w.types("stty size; echo over-1\r")
	w.until("50 132\r\n")
	w.types("sleep 1000\r") // Ctrl-C ends it
	w.until("sleep 1000\r\n")
	eventually(t, "it sleeps", func() bool { return n.runs(t, one, "sleep") })
	w.types("\x03")
	w.types("echo code-$?\r")
	w.until("code-130\r\n")
	w.types("sleep 999\r") // Ctrl-Z stops it
	eventually(t, "it sleeps again", func() bool { return n.runs(t, one, "sleep") })
	w.types("\x1a")
	w.until("Stopped")
	w.types("kill %1; fg; echo over-2\r")
	w.until("over-2\r\n")
	// a connection that is lost and comes back
	at := w.at
	w.conn.Close()
	again := n.attach(t, one, at)
	again.types("exit 9\r")
	if end := again.all(); end.Code != 9 {
		t.Errorf("%+v", end)
	}
	if s := n.await(one); s.Exit == nil || s.Exit.Code != 9 {
		t.Errorf("%+v", s)
	}
}

// runs reports whether a program of a name runs in a container.
func (n *node) runs(t *testing.T, id container.ID, name string) bool {
	t.Helper()
	pids, err := os.ReadFile(countsProcesses(cgroupRoot + "/" + id.String() + "/cgroup.procs"))
	check(t, err)
	return slices.ContainsFunc(strings.Fields(string(pids)), func(pid string) bool {
		comm, _ := os.ReadFile("/proc/" + pid + "/comm") // it may have ended
		return strings.TrimSpace(string(comm)) == name
	})
}

func TestExec(t *testing.T) {
	n := newNode(t, 0)
	n.secrets = []container.Secret{}
	n.started(one, "echo ready; exec sleep 1000")
	n.ready(t, one)
	w := n.execute(t, one, container.Exec{Args: []string{"sh", "-c",
		`id -u; id -G; pwd; echo "$ROTA_JOB_ID $EXTRA"; cat /proc/1/comm; ` + inCgroup() + `; grep CapEff /proc/self/status
grep NoNewPrivs /proc/self/status; cat; echo err >&2; exit 3`}, Env: []string{"EXTRA=more"}})
	w.types("input\n")
	check(t, w.conn.Write(stream.Frame{Kind: stream.StdinEnd, Task: 0}))
	if end := w.all(); end.Code != 3 || end.Signal != 0 || w.exits[0].Code != 3 {
		t.Errorf("%+v, %+v", end, w.exits)
	}
	eventually(t, "its use is known without a question", func() bool {
		list, err := n.shims.List(t.Context())
		check(t, err)
		return len(list) == 1 && list[0].Extern.PeakMem > 0
	})
	want(t, w.got[0], "23456", "23457 24000", n.shared, "1 more", "init", cgroupRoot+"/"+one.String(),
		"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "input", "err")
	for _, c := range []struct {
		exec container.Exec
		code int
		sig  int
		says string
	}{
		{container.Exec{Args: []string{"no-such-command"}}, 127, 0, "rota: no-such-command: command not found in PATH"},
		{container.Exec{Args: []string{"/etc/passwd"}}, 126, 0, "permission denied"},
		{container.Exec{Args: []string{"true"}, Dir: "/none"}, 126, 0, "cannot enter the working directory /none"},
		{container.Exec{Args: []string{"sh", "-c", "kill -SEGV $$"}}, 0, int(unix.SIGSEGV), ""},
		{container.Exec{Args: []string{"pwd"}, Dir: "/usr"}, 0, 0, "/usr\n"},
		{container.Exec{Args: []string{"sh", "-c", "stty size; tty; exit 4"},
			Terminal: &container.Terminal{Rows: 10, Columns: 20}}, 4, 0, "10 20\r\n/dev/pts/0\r\n"},
	} {
		w := n.execute(t, one, c.exec)
		if end := w.all(); end.Code != c.code || end.Signal != c.sig || !strings.Contains(w.got[0], c.says) {
			t.Errorf("%v: %+v, %q", c.exec.Args, end, w.got[0])
		}
	}
}

func TestAnExecEndsWithItsConnection(t *testing.T) {
	n := newNode(t, 0)
	n.started(one, "echo ready; exec tail -f /dev/null")
	n.ready(t, one)
	for _, terminal := range []*container.Terminal{nil, {Rows: 24, Columns: 80}} {
		w := n.execute(t, one, container.Exec{Args: []string{"sh", "-c", "echo begun; sleep 1000; true"}, Terminal: terminal})
		w.until("begun")
		eventually(t, "it sleeps", func() bool { return n.runs(t, one, "sleep") })
		w.conn.Close()
		eventually(t, "its shell ends", func() bool { return !n.runs(t, one, "sh") })
	}
	w := n.execute(t, one, container.Exec{Args: []string{"sh", "-c", "echo begun; exec sleep 1000"}})
	w.until("begun")
	check(t, w.conn.Write(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte("SIGTERM")}))
	if end := w.all(); end.Signal != int(unix.SIGTERM) {
		t.Errorf("%+v", end)
	}
	// one that runs when the worker ends
	w = n.execute(t, one, container.Exec{Args: []string{"sh", "-c", "echo begun; exec sleep 1000"}})
	w.until("begun")
	check(t, n.shims.Kill(context.Background(), one))
	if end := w.all(); end.Signal != int(unix.SIGKILL) {
		t.Errorf("%+v", end)
	}
	n.await(one)
	eventually(t, "one that has ended takes no connection", func() bool { // its shim ends when all was read
		c, err := n.shims.OpenIO(t.Context(), one, container.IORequest{Exec: &container.Exec{}})
		if err == nil {
			check(t, c.Close())
		}
		return errors.Is(err, container.ErrNoIO)
	})
}

func TestWhereNoProcessIsStarted(t *testing.T) {
	n := newNode(t, 0)
	ctx := context.Background()
	check(t, n.shims.Create(ctx, one, n.bundle(one, "echo ready; exec sleep 1000"), time.Now().Add(time.Hour)))
	refused := func(e container.Exec, says string) {
		t.Helper()
		w := n.execute(t, one, e)
		if end := w.all(); end.Code != 125 || !strings.Contains(end.Why, says) {
			t.Errorf("%+v, want %q", end, says)
		}
	}
	refused(container.Exec{}, "has not started yet")
	check(t, n.shims.Start(ctx, one))
	n.ready(t, one)
	refused(container.Exec{Task: "none"}, `no task "none"`)
	check(t, n.shims.Switch(ctx, one, container.SwitchOrder{Number: 1, WithinMS: 1000}))
	refused(container.Exec{}, "it is suspended")
	w := n.attach(t, one, 0)
	if end := w.all(); !strings.Contains(end.Why, "goes to files") {
		t.Errorf("%+v", end)
	}
	c, err := net.Dial("unix", filepath.Join(n.shims.Path(one), "io.sock"))
	check(t, err)
	_, err = io.WriteString(c, "o\x00\x00\x00\x00\x00\x00\x00\x00")
	check(t, err)
	odd := &talk{t: t, conn: stream.New(c), got: map[uint32]string{}}
	if end := odd.all(); !strings.Contains(end.Why, "is not a request") {
		t.Errorf("%+v", end)
	}
	info, err := os.Stat(filepath.Join(n.shims.Path(one), "io.sock"))
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestAWorkerIsHungUpWithoutAReader(t *testing.T) {
	n := newNode(t, 0)
	n.io, n.terminal = &container.IO{HangUpMS: 1000}, &launch.Terminal{Rows: 24, Columns: 80}
	n.started(one, "trap 'exit 66' HUP; echo ready; while :; do read line; done")
	if s := n.await(one); s.Exit == nil || s.Exit.Code != 66 {
		t.Errorf("never attached: %+v", s)
	}
	two := container.ID{Job: 2, Attempt: 1}
	n.mutate = func(in *oci.Input) { in.Alloc.Spec.Groups[0].Tasks[0].KillTimeout = 1 }
	n.started(two, "echo ready; exec sleep 1000")
	w := n.attach(t, two, 0)
	w.until("ready")
	w.conn.Close()
	if s := n.await(two); s.Exit == nil || s.Exit.Signal != int(unix.SIGHUP) ||
		s.Exit.Why != "its terminal was closed: nothing had been attached to it for 1s" {
		t.Errorf("lost: %+v", s)
	}
}

func TestOutputThatIsDropped(t *testing.T) {
	n := newNode(t, 0)
	n.io = &container.IO{Drop: true}
	n.started(one, "seq 1 1500000; touch "+n.shared+"/written; read line; echo $line")
	eventually(t, "all is written", func() bool { _, err := os.Stat(n.shared + "/written"); return err == nil })
	w := n.attach(t, one, 0)
	w.types("bye\n")
	end, last := w.all(), "\n1499999\n1500000\nbye\n"
	if end.Code != 0 || !strings.HasSuffix(w.got[0], last) || len(w.got[0]) < 2<<20 {
		t.Errorf("%+v, %d bytes", end, len(w.got[0]))
	}
	n.await(one)
}

// TestTheEndIsReadAfterTheRecord has a reader that comes while the worker's end is already recorded.
func TestTheEndIsReadAfterTheRecord(t *testing.T) {
	n := newNode(t, 0)
	n.io = &container.IO{}
	n.started(one, "echo last words; exit 5")
	if s := n.await(one); s.Exit == nil || s.Exit.Code != 5 {
		t.Errorf("%+v", s)
	}
	pid := n.shimPid(t, one)
	w := n.attach(t, one, 0)
	if end := w.all(); end.Code != 5 || w.got[0] != "last words\n" {
		t.Errorf("%+v, %q", end, w.got[0])
	}
	eventually(t, "the shim ends", func() bool { return unix.Kill(pid, 0) != nil })
}

// TestAReaderOnItsWayIsAwaited notices the output of a program that is lost because it ended before the
// reader came that it has to have.
func TestAReaderOnItsWayIsAwaited(t *testing.T) {
	n := newNode(t, 0)
	n.io = &container.IO{Drop: true, HangUpMS: 60_000}
	n.started(one, "until [ -e "+n.shared+"/go ]; do sleep 0.05; done; echo here")
	pid := n.status(one).Pid
	check(t, os.WriteFile(n.shared+"/go", nil, 0o644))
	eventually(t, "the program has ended", func() bool { return unix.Kill(pid, 0) != nil })
	w := n.attach(t, one, 0)
	if w.all(); w.got[0] != "here\n" {
		t.Errorf("the reader got %q", w.got[0])
	}
	n.await(one)
}
