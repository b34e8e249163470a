package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Sessions are what users type and see. Each file sessions/*/*.txtar is one story. It has the
// user's files, and a transcript of commands behind "$ " with everything they print and, unless it
// is 0, their exit code. A placeholder stands for anything that differs each time: JOB1 is the
// first job that the story submits, in commands as $JOB1. Run the test with -update to write
// transcripts anew, and read the difference.
//
// Beside what a shell has, "until" waits: until JOB STATE, until JOB reason CODE, until JOB step N,
// until JOB logs TEXT.

var update = flag.Bool("update", false, "write the sessions' transcripts anew")

// Stories of what needs no cluster.
func TestSessionsAlone(t *testing.T) {
	s := &stories{t: t, addr: "unix:/nowhere/rota.sock"}
	s.runFolder("sessions/alone", t.TempDir())
}

// Stories told on one development cluster of two nodes with four GPUs each.
func TestSessions(t *testing.T) {
	w := newDevWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	w.ctx = ctx
	s := &stories{t: t, ctx: ctx}
	s.addr = w.runDev("--nodes", "2", "--sim-gpus", "4", "--cores", "8")
	var err error
	if s.client, err = api.Dial(s.addr); err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	s.skipNumbers(w.from)
	s.runFolder("sessions/cluster", w.from)
}

// runDev starts `rota dev` until the end of the test and returns the cluster's address.
func (w *devWorld) runDev(args ...string) string {
	w.t.Helper()
	var errs bytes.Buffer
	cmd := w.rota(append([]string{"dev", "--dir", w.dir}, args...)...)
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		// the test's context ends before this is called
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("rota dev: %v\n%s", err, &errs)
		}
		w.nothingLeft()
	})
	line, err := bufio.NewReader(pipe).ReadString('\n')
	addr, ready := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ready ")
	if err != nil || !ready {
		w.t.Fatalf("the first line of rota dev is %q: %v\n%s", line, err, &errs)
	}
	return addr
}

// stories runs scripts one after the other.
type stories struct {
	t      *testing.T
	ctx    context.Context
	addr   string
	client *api.Client // nil without a cluster
}

// firstNumber is the id of the first job of a story, or a little less. It is so large that it
// differs from all other numbers on the screen.
const firstNumber = 4801

// skipNumbers uses up the small ids.
func (s *stories) skipNumbers(dir string) {
	job := &jobspec.Job{Name: "filler", Hold: true, Groups: []jobspec.Group{{Name: "main",
		Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
	job.Default()
	job.Workdir, job.SubmitDir, job.SubmitHost = dir, dir, "here"
	jobs := slices.Repeat([]*jobspec.Job{job}, 600)
	for range firstNumber / len(jobs) {
		if _, err := s.client.SubmitAll(s.ctx, api.NewKey(), jobs); err != nil {
			s.t.Fatal(err)
		}
	}
	s.clear()
}

// clear cancels what a story left and waits until nothing runs, and puts all nodes back into use.
func (s *stories) clear() {
	if _, err := s.client.CancelMany(s.ctx, api.CancelRequest{States: []string{"PD", "R", "CF", "CG"}}); err != nil {
		s.t.Fatalf("cancel what is left: %v", err)
	}
	s.await("an empty queue", func() bool {
		list, _, err := s.client.Jobs(s.ctx, api.JobFilter{}, api.Read{})
		return err == nil && len(list.Items) == 0
	})
	for _, node := range []string{"n1", "n2"} {
		if err := s.client.SetNode(s.ctx, node, "resume", ""); err != nil {
			s.t.Fatalf("resume %s: %v", node, err)
		}
	}
}

// await waits for a condition.
func (s *stories) await(what string, cond func() bool) {
	for !cond() {
		select {
		case <-s.ctx.Done():
			s.t.Fatalf("there was no %s in time", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inTurn runs scripts one after the other, for they share a cluster.
type inTurn struct{ *testing.T }

func (i inTurn) Parallel()     {}
func (i inTurn) Verbose() bool { return testing.Verbose() }
func (i inTurn) Run(name string, f func(testscript.T)) {
	i.T.Run(name, func(t *testing.T) { f(inTurn{t}) })
}

// runFolder runs the scripts of a directory, each in a directory of its own below root.
func (s *stories) runFolder(dir, root string) {
	testscript.RunT(inTurn{s.t}, testscript.Params{
		Dir: dir, WorkdirRoot: root, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("ROTA_ADDR", s.addr)
			env.Setenv("TZ", "UTC")
			env.Setenv("LANG", "C.UTF-8")
			if s.client != nil {
				env.Defer(s.clear)
			}
			for _, made := range []string{env.WorkDir, filepath.Join(env.WorkDir, "tmp")} { // jobs run as nobody
				if err := os.Chmod(made, 0o777); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"transcript": s.transcript},
	})
}

// transcript runs the commands of a transcript and writes what came of them: transcript SESSION
// GOT.
func (s *stories) transcript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: transcript SESSION GOT")
	}
	p := &play{stories: s, ts: ts, known: map[string]string{}}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		if isCommand || strings.HasPrefix(line, "# ") {
			fmt.Fprintln(&p.got, line)
		}
		if isCommand {
			p.do(command)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), p.got.Bytes(), 0o644))
}

// play is one transcript while it is written.
type play struct {
	*stories
	ts    *testscript.TestScript
	got   bytes.Buffer
	known map[string]string // ids of jobs, by id, and what stands for them
}

func (p *play) do(command string) {
	if words := strings.Fields(command); words[0] == "until" {
		p.until(words[1], words[2:])
		return
	}
	// Not exported: a script's job would be said to lack them.
	var ids strings.Builder
	for id, name := range p.known {
		fmt.Fprintf(&ids, "%s=%s\n", name, id)
	}
	cmd := exec.Command("sh", "-c", ids.String()+command)
	cmd.Dir = p.ts.MkAbs(".")
	cmd.Env = []string{"HOME=" + cmd.Dir}
	for _, name := range []string{"PATH", "ROTA_ADDR", "TZ", "LANG"} {
		cmd.Env = append(cmd.Env, name+"="+p.ts.Getenv(name))
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.ts.Fatalf("%s: %v", command, err)
	}
	p.learn(command, string(out))
	for line := range strings.Lines(p.normal(string(out))) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "$ ") {
			line = `\` + line
		}
		fmt.Fprintln(&p.got, line)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		fmt.Fprintf(&p.got, "[exit %d]\n", code)
	}
}

var (
	submittedLine = regexp.MustCompile(`(?m)^(?:Submitted batch job )?(\d{4,})$`)
	number        = regexp.MustCompile(`\d+`)
	// what is different each time, and what stands for it; as long as what it stands for, so that
	// tables keep their form
	placeholders = []struct {
		what *regexp.Regexp
		text string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?`), "YYYY-MM-DDThh:mm:ss"},
		{regexp.MustCompile(`\b0:[0-5]\d\b`), "0:ss"},
		{regexp.MustCompile(`at most \S+ of memory in a worker`), "at most SIZE of memory in a worker"},
		{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "hh:mm:ss"},
		// Sessions share a cluster, so the number of earlier runs depends on which have run before.
		{regexp.MustCompile(`earliest (if they end at once|from \d+ earlier runs? by \w+)`), "earliest by earlier runs"},
	}
)

// learn notes the ids of jobs that a command submitted.
func (p *play) learn(command, out string) {
	if !strings.Contains(out, "Submitted batch job ") && !strings.Contains(command, "--parsable") {
		return
	}
	for _, m := range submittedLine.FindAllStringSubmatch(out, -1) {
		if p.known[m[1]] == "" {
			p.known[m[1]] = fmt.Sprintf("JOB%d", len(p.known)+1)
		}
	}
}

// normal puts placeholders in the place of what is different each time.
func (p *play) normal(out string) string {
	out = strings.ReplaceAll(out, p.ts.MkAbs("."), "/work")
	for _, ph := range placeholders {
		out = ph.what.ReplaceAllString(out, ph.text)
	}
	return number.ReplaceAllStringFunc(out, func(n string) string {
		if name := p.known[n]; name != "" {
			return name
		}
		if v, err := strconv.Atoi(n); err == nil && p.client != nil && v >= firstNumber && v < firstNumber+600 {
			return "JOBn" // of an element or a group
		}
		return n
	})
}

// until waits for a job's state, its reason, a step that it has reported, or a text in its output.
func (p *play) until(ref string, what []string) {
	ref = os.Expand(ref, func(name string) string {
		for id, known := range p.known {
			if known == name {
				return id
			}
		}
		return name
	})
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	for {
		last, holds, over := p.inspect(ref, what)
		if holds {
			return
		}
		if over {
			p.ts.Fatalf("job %s is not %s, and has ended: %s", ref, strings.Join(what, " "), last)
		}
		select {
		case <-ctx.Done():
			p.ts.Fatalf("job %s is not %s in time: %s", ref, strings.Join(what, " "), last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inspect reports whether a job is in the awaited state, its present state, and whether it is over,
// so that it will never change.
func (p *play) inspect(ref string, what []string) (is string, holds, over bool) {
	job, _, err := p.client.JobBy(p.ctx, ref, api.Read{})
	switch {
	case err != nil:
		return err.Error(), false, false
	case strings.Contains(ref, "_") && job.Array.Job == 0:
		return "not begun", false, job.Code.Final() // it is the array's record that has the state
	case what[0] == "logs":
		out, _ := exec.Command(filepath.Join(bin, "rota"), "--addr", p.addr, "logs", ref).CombinedOutput()
		return string(out), strings.Contains(string(out), what[1]), job.Code.Final()
	case what[0] == "reason":
		return job.Reason.Code, job.Reason.Code == what[1], job.Code.Final()
	case what[0] == "step":
		// samples may come late
		return fmt.Sprintf("%s at step %d", job.Code, job.Steps), fmt.Sprint(job.Steps) == what[1], false
	}
	return fmt.Sprintf("%s (%s)", job.Code, job.Reason.Text), job.Code == model.JobState(what[0]), job.Code.Final()
}
