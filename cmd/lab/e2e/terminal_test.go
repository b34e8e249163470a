package e2e

import (
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// person is a command at a terminal.
type person struct {
	w      *world
	cmd    *exec.Cmd
	master *os.File

	mu     sync.Mutex
	change chan struct{} // closed at the next change
	seen   string
	over   bool
}

// sits starts the command rota at a terminal of its own.
func (w *world) sits(args ...string) *person {
	w.t.Helper()
	p := &person{w: w, cmd: w.Rota(w.ctx, args...), change: make(chan struct{})}
	p.cmd.Dir = w.shared
	p.cmd.Env = append(p.cmd.Env, "TERM=vt100")
	var err error
	p.master, err = pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 31, Cols: 97})
	w.must(err)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := p.master.Read(b)
			p.mu.Lock()
			p.seen += string(b[:n])
			p.over = err != nil
			close(p.change)
			p.change = make(chan struct{})
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	w.t.Cleanup(func() { p.master.Close() })
	return p
}

// types types keys.
func (p *person) types(keys string) {
	p.w.t.Helper()
	_, err := p.master.WriteString(keys)
	p.w.must(err)
}

// sees waits until a text has been shown, and forgets what was before it.
func (p *person) sees(text string) {
	p.w.t.Helper()
	for {
		p.mu.Lock()
		_, rest, found := strings.Cut(p.seen, text)
		if found {
			p.seen = rest
		}
		seen, over, change := p.seen, p.over, p.change
		p.mu.Unlock()
		if found {
			return
		}
		if over {
			p.w.t.Fatalf("%q is never shown: %q", text, seen)
		}
		select {
		case <-change:
		case <-time.After(30 * time.Second):
			p.w.t.Fatalf("%q is not shown: %q", text, seen)
		}
	}
}

// echoes types keys one by one, and returns the 99th percentile of the time until each is shown.
func (p *person) echoes(n int) time.Duration {
	p.w.t.Helper()
	var took []time.Duration
	for range n {
		begun := time.Now()
		p.types("x")
		p.sees("xx") // the terminal's echo, and what the program writes
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	p.w.t.Logf("echo of %d keys: p50 %v, p99 %v", n, took[n/2], took[n*99/100])
	return took[n*99/100]
}

// leaves waits for the command and returns its exit code.
func (p *person) leaves() int {
	_ = p.cmd.Wait() // the code tells
	return p.cmd.ProcessState.ExitCode()
}

// TestAPersonAtATerminal: a job at a terminal has its size, job control and its keys, and the command
// ends with its exit code.
func TestAPersonAtATerminal(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 1})
	p := w.sits("run", "--pty", "--", "bash", "--norc", "--noprofile")
	p.sees("$ ")
	p.types("PS1='> '; stty size; tty; echo $TERM $SLURM_JOB_ID-done\r")
	p.sees("31 97\r\n/dev/pts/0\r\nvt100 1-done")
	w.must(pty.Setsize(p.master, &pty.Winsize{Rows: 50, Cols: 120}))
	p.types("until stty size | grep 120; do sleep 0.05; done; echo wi'de'\r")
	p.sees("50 120\r\nwide")
	p.types("sh -c 'echo be\"gun\"; exec sleep 1000'; echo en'ded' $?\r") // the program says that it is in front
	p.sees("begun\r\n")
	p.types("\x03")
	p.sees("^C")
	p.sees("> ") // the shell drops what is typed before
	p.types("echo co'de' $?\r")
	p.sees("code 130")
	p.types("echo wi'th'; cat\r") // Ctrl-Z stops it
	p.sees("with\r\n")
	p.types("twice\n")
	p.sees("twice\r\ntwice\r\n")
	p.types("\x1a")
	p.sees("Stopped")
	p.sees("> ")
	// the shell does not leave while it takes a job for stopped
	p.types("kill -9 %1; while jobs %1 >/dev/null 2>&1; do sleep 0.05; done; echo ki'lled'\r")
	p.sees("killed")
	p.types("exit 7\r")
	if code := p.leaves(); code != 7 {
		t.Errorf("exit code %d", code)
	}
	if j := w.status("1"); j.Code != model.Failed || j.ExitCode != 7 {
		t.Errorf("%s, %d", j.Code, j.ExitCode)
	}

	// a person whose terminal is closed
	p = w.sits("run", "--pty", "--", "bash", "--norc", "--noprofile")
	p.sees("$ ")
	w.must(p.cmd.Process.Signal(unix.SIGHUP))
	p.leaves()
	if j := w.ends("2"); j.Code != model.Cancelled {
		t.Errorf("%s", j.Code)
	}

	// a connection that is lost, as the daemon of the node is killed
	p = w.sits("run", "--pty", "--", "bash", "--norc", "--noprofile")
	p.sees("$ ")
	w.Nodes[0].Kill()
	w.must(w.Nodes[0].Start())
	p.types("echo sti'll' here\r")
	p.sees("still here")
	p.types("exit\r")
	if code := p.leaves(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	p = w.sits("run", "--pty", "--", "sh", "-c", "stty -icanon; echo go; exec cat")
	p.sees("go\r\n")
	if p99 := p.echoes(500); p99 > 500*time.Millisecond { // other tests run beside it
		t.Errorf("a key is echoed after %v", p99)
	}
	p.types("\x03")
	if code := p.leaves(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	_, errs, code := w.rota("run", "--pty", "-N", "2", "--", "bash")
	if code != 120 || !strings.Contains(errs, "one worker") {
		t.Errorf("two workers: %d %s", code, errs)
	}
}

// usedBeside notices processor time of rota exec that sacct shows as that of the script, or twice.
func (w *world) usedBeside(id string) {
	w.t.Helper()
	out, said, code := w.slurm("sacct", "-n", "-P", "-j", id, "-o", "JobID,JobName,NTasks,State,ExitCode,TotalCPU")
	want := regexp.MustCompile(`^ID\|held\|\|CANCELLED by 0\|0:0\|00:0(.*)
ID\.batch\|batch\|1\|CANCELLED\|0:15\|00:0(.*)
ID\.extern\|extern\|2\|COMPLETED\|0:0\|00:0(.*)
$`)
	found := want.FindStringSubmatch(regexp.MustCompile(`(?m)^`+id+`\b`).ReplaceAllString(out, "ID"))
	if code != 0 || found == nil {
		w.t.Errorf("sacct: %d %s\n%s", code, said, out)
		return
	}
	var used [3]float64
	for i, text := range found[1:] {
		n, err := strconv.ParseFloat(text, 64)
		w.must(err)
		used[i] = n
	}
	if job, batch, extern := used[0], used[1], used[2]; extern < 0.6 || batch >= 0.6 ||
		math.Abs(job-batch-extern) > 0.0015 {
		w.t.Errorf("the job used %.3f s, its script %.3f s, what was beside it %.3f s", job, batch, extern)
	}
}

// TestAPersonInARunningJob: exec and shell start processes in a running job of the caller's own, and
// attach goes on with a job's terminal.
func TestAPersonInARunningJob(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 2, GPUs: 2})
	id := w.submit(`job "held" {
  group "g" {
    count = 2
    max_workers_per_node = 1
    task "t" {
      command = ["sleep", "1000"]
      env { FLAVOUR = "job" }
      resources { gpus = 1 }
    }
  }
}`)
	w.until(id, "it runs", func(j api.Job) bool { return j.Code == model.Running })
	for worker, ref := range []string{id, id + ".1"} {
		out, errs, code := w.rota("exec", ref, "--", "sh", "-c",
			"echo $FLAVOUR $SLURM_NODEID $CUDA_VISIBLE_DEVICES; echo err >&2; exit 3")
		if code != 3 || !strings.HasPrefix(out, "job ") || errs != "err\n" || len(strings.Fields(out)) < 3 ||
			!slices.Contains(strings.Fields(out), []string{"0", "1"}[worker]) {
			t.Errorf("%s: %d %q %q", ref, code, out, errs)
		}
	}
	cmd := w.Rota(w.ctx, "exec", "--env", "B=b", id, "--", "sh", "-c", "cat; echo $B; kill -TERM $$")
	cmd.Stdin = strings.NewReader(strings.Repeat("0123456789abcdef", 1<<16))
	out, _ := cmd.Output() // the code follows
	if cmd.ProcessState.ExitCode() != 143 || len(out) != 16<<16+2 {
		t.Errorf("%d with %d bytes", cmd.ProcessState.ExitCode(), len(out))
	}
	p := w.sits("shell", id)
	p.sees("$ ")
	p.types("stty size; exit 5\r")
	p.sees("31 97")
	if code := p.leaves(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"exec", id + ".7", "--", "true"}, 121, "has no worker 7"},
		{[]string{"exec", "999", "--", "true"}, 121, "unknown job 999"},
		{[]string{"exec", id}, 120, "rota exec needs a job and a command"},
		{[]string{"attach", id}, 125, "goes to files"},
		{[]string{"exec", id, "--", "none-such"}, 127, "none-such: command not found in PATH"},
	} {
		if out, errs, code := w.rota(c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: %d %s%s", c.args, code, out, errs)
		}
	}
	other := w.Rota(w.ctx, "exec", id, "--", "true")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1, Gid: 1}}
	text, _ := other.CombinedOutput() // the code follows
	if other.ProcessState.ExitCode() != 122 || !strings.Contains(string(text), "only its owner") {
		t.Errorf("another user: %d %s", other.ProcessState.ExitCode(), text)
	}
	if audit := w.ok("audit", "-o", "json"); !strings.Contains(audit, "/exec") {
		t.Errorf("the audit log has no exec: %s", audit)
	}
	// it burns 0.6 s of processor time, which the kernel counts in hundredths of a second
	w.ok("exec", id+".1", "--", "sh", "-c", "set -- 0 0 0 0 0 0 0 0 0 0 0 0 0; while [ $((${12} + ${13})) -lt 60 ]; do "+
		"read -r all </proc/$$/stat; set -- ${all##*) }; done")
	w.wait("what was used beside the script", func() bool {
		used, _, _ := w.slurm("sstat", "-n", "-P", "-j", id+".extern", "-o", "JobID,NTasks,AveCPU")
		return regexp.MustCompile(`^` + id + `\.extern\|2\|00:00\.[3-9]\d*\n$`).MatchString(used)
	})
	w.ok("cancel", id)
	w.ends(id)
	w.usedBeside(id)
	if _, errs, code := w.rota("exec", id, "--", "true"); code == 0 || !strings.Contains(errs, "CANCELLED") {
		t.Errorf("in an ended job: %d %s", code, errs)
	}

	id = w.submit(`job "talks" {
  task "t" {
    script = "while read line; do echo heard $line; [ \"$line\" = bye ] && exit 4; done"
    terminal {}
  }
}`)
	w.until(id, "it runs", func(j api.Job) bool { return j.Code == model.Running })
	p = w.sits("attach", id)
	p.types("one\r")
	p.sees("heard one")
	p.types("\x10\x11")
	p.sees("detached")
	if code := p.leaves(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = w.sits("attach", id)
	p.types("bye\r")
	p.sees("heard bye")
	if code := p.leaves(); code != 4 {
		t.Errorf("exit code %d", code)
	}
	if j := w.ends(id); j.ExitCode != 4 {
		t.Errorf("%+v", j.ExitCode)
	}
}
