package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/model"
)

var granted = regexp.MustCompile(`salloc: Granted job allocation (\d+)\n`)

// shell runs a line of a shell as the user of the jobs.
func (w *world) shell(line string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, "sh", "-c", line)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.shared, w.Rota(w.ctx).Env, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	_ = cmd.Run() // the code says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestSalloc: steps run on both nodes of an allocation, which ends with its command, with scancel or at its
// time limit.
func TestSalloc(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	salloc := func(args ...string) (out, said, id string, code int) {
		w.t.Helper()
		out, said, code = w.slurm(append([]string{"salloc"}, args...)...)
		m := granted.FindStringSubmatch(said)
		if m == nil {
			t.Fatalf("salloc %q: exit %d\n%s%s", args, code, out, said)
		}
		return out, said, m[1], code
	}
	names := w.scratch("names") // links, as the package has them
	for _, name := range []string{"srun", "scancel", "sattach"} {
		w.must(os.Symlink(filepath.Join(bin, "rota"), filepath.Join(names, name)))
	}
	path := "PATH=" + names + ":$PATH; "
	out, said, id, code := salloc("-N2", "--mem=128M", "-t5", "sh", "-c", path+
		"srun sh -c 'echo $SLURM_NODEID $SLURM_JOB_ID'; srun -n1 -N1 --pty sh -c 'test -t 0; exit 4' >/dev/null")
	if code != 4 || sortedLines(out) != "0 "+id+"\n1 "+id ||
		!strings.HasSuffix(said, "salloc: Relinquishing job allocation "+id+"\n") {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
	if j := w.ends(id); j.Code != model.Failed || j.ExitCode != 4 || j.Signal != 0 {
		t.Errorf("it ended as %s, %d:%d", j.Code, j.ExitCode, j.Signal)
	}
	for command, want := range map[string]string{"exit 0": "COMPLETED 0:0", "kill -9 $$": "FAILED 0:9"} {
		_, _, id, _ = salloc("-N2", "--mem=128M", "-t5", "sh", "-c", command)
		if j := w.ends(id); fmt.Sprintf("%s %d:%d", j.State, j.ExitCode, j.Signal) != want {
			t.Errorf("%s: it ended as %s %d:%d, not %s", command, j.State, j.ExitCode, j.Signal, want)
		}
	}
	out, said, id, code = salloc("--mem=128M", "-t5", "-K", "sh", "-c", path+"scancel $SLURM_JOB_ID; exec sleep 1000")
	if code != 128+15 || !strings.HasSuffix(said, "salloc: Job allocation "+id+" has been revoked.\n") {
		t.Errorf("cancelled: exit %d\n%s%s", code, out, said)
	}
	out, said, id, code = salloc("--mem=128M", "-t0:02", "-K", "sleep", "1000")
	if j := w.ends(id); code != 128+15 || j.Code != model.TimedOut ||
		!strings.HasSuffix(said, "salloc: Job allocation "+id+" has been revoked.\n") {
		t.Errorf("at its time limit: exit %d, %s\n%s%s", code, j.Code, out, said)
	}
	// a shell on the first node, at a terminal
	w.must(os.Symlink(filepath.Join(bin, "rota"), filepath.Join(names, "salloc")))
	out, said, code = w.shell(path +
		"script -qec 'salloc -Q --mem=128M -t5 srun --pty sh -c \"tty; pwd; exit 5\"' /dev/null")
	if want := "/dev/pts/0\r\n" + w.shared + "\r\n"; code != 5 || !strings.Contains(out, want) {
		t.Errorf("at a terminal: exit %d\n%q, not %q\n%s", code, out, want, said)
	}
	// a job of its own at a terminal
	out, said, code = w.shell(path + "script -qec 'srun -Q --mem=128M -t5 --pty sh -c \"tty; exit 6\"' /dev/null")
	if want := "/dev/pts/0\r\n"; code != 6 || !strings.Contains(out, want) {
		t.Errorf("srun at a terminal: exit %d\n%q, not %q\n%s", code, out, want, said)
	}
	out, said, id, code = salloc("-N2", "--mem=128M", "-t5", "--no-shell")
	if code != 0 || out != "" || strings.Contains(said, "Relinquishing") {
		t.Errorf("--no-shell: exit %d\n%s%s", code, out, said)
	}
	dir := w.scratch("attached")
	ended := make(chan string, 1)
	go func() {
		_, said, code := w.slurm("srun", "--jobid="+id, "-N1", "-n1", "-D", dir, "sh", "-c",
			"echo >up; until [ -e go ]; do echo more; sleep 0.1; done; exit 6")
		ended <- fmt.Sprintf("%d %s", code, said)
	}()
	w.lines(filepath.Join(dir, "up"), 1)
	// the step ends when something of it was seen
	out, said, code = w.shell(path + "sattach -l " + id + ".0 | { read -r line; echo \"$line\"; touch " + dir +
		"/go; cat >/dev/null; }")
	if text := <-ended; code != 0 || out != "0: more\n" || !strings.HasPrefix(text, "6 ") {
		t.Errorf("sattach: %d %q %s; srun: %s", code, out, said, text)
	}
	if _, said, code := w.slurm("scancel", id); code != 0 {
		t.Errorf("scancel: exit %d\n%s", code, said)
	}
	w.ends(id)
}
