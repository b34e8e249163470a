package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// run submits a command as a job, shows its output, and ends with its code.
func (w *world) run(c *cli.Context) error {
	job, err := w.jobFromArgs(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	return w.attended(c.Context, client, job)
}

// jobFromArgs makes a job of one task from the command line.
func (w *world) jobFromArgs(c *cli.Context) (*jobspec.Job, error) {
	command := c.Args().Slice()
	if len(command) == 0 {
		return nil, usagef("run what? rota run %s", c.Command.ArgsUsage)
	}
	apart := false
	task := jobspec.Task{Name: "main", Command: command, Image: c.String("image"), Log: &jobspec.Log{Join: &apart},
		Resources: jobspec.Resources{Cores: c.Int("cores"), GPUs: c.Int("gpus")}}
	if text := c.String("mem"); text != "" {
		size, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		task.Resources.Memory = size
	}
	env, err := assignments("--env", c.StringSlice("env"))
	if err != nil {
		return nil, err
	}
	task.Env = env
	if c.Int("nodes") < 1 {
		return nil, usagef("--nodes %d: at least 1", c.Int("nodes"))
	}
	job := &jobspec.Job{Name: jobName(command[0]), Export: splitList(c.String("export")), Workdir: c.String("workdir"),
		Groups: []jobspec.Group{{Name: "main", Count: c.Int("nodes"), Tasks: []jobspec.Task{task}}}}
	if job.Workdir, err = absolute(job.Workdir); err != nil {
		return nil, err
	}
	job.Default()
	if err := override(job, c); err != nil {
		return nil, err
	}
	return job, w.fromHere(job)
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	return abs, nil
}

// jobName makes a name of a command: its base, with what a name may not have replaced.
func jobName(command string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, filepath.Base(command))
	name = strings.TrimLeft(name, "-._")
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 60)]
}

// assignments reads NAME=VALUE pairs.
func assignments(flag string, pairs []string) (map[string]string, error) {
	var out map[string]string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("%s %s: write %s NAME=VALUE", flag, pair, flag)
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = value
	}
	return out, nil
}

// cancelWait bounds how long a cancellation asked for by Ctrl-C may take to be heard.
const cancelWait = 10 * time.Second

// attended submits and follows a job that belongs to this terminal: the first Ctrl-C cancels it, the second leaves at once.
func (w *world) attended(parent context.Context, client *api.Client, spec *jobspec.Job) error {
	ctx, leave := context.WithCancelCause(parent)
	defer leave(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	known, broken := make(chan cluster.JobID, 1), make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // so that the job does not go on when this process cannot
	defer signal.Stop(broken)
	go w.interruptions(ctx, client, interrupts{signals, broken}, known, leave)
	id, err := client.Submit(ctx, api.NewKey(), spec)
	if err != nil {
		if errors.Is(context.Cause(ctx), errInterrupted) {
			return fmt.Errorf("left while %s was being submitted (\"rota queue --me\" shows whether it is in): %w", spec.Name, errInterrupted)
		}
		return aboutSpec("submit", spec.Name, err)
	}
	known <- id
	warned := w.warnOfInput()
	job, err := w.follow(ctx, client, id)
	if !warned {
		w.warnOfInput() // that came later
	}
	if err != nil {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errInterrupted):
			return fmt.Errorf("left job %d while it was being cancelled: %w", id, errInterrupted)
		case errors.Is(cause, errPipe):
			return &codeError{code: exitPipe}
		}
		return fmt.Errorf("job %d: %w", id, err)
	}
	return w.endWith(job)
}

// secondSignalAfter is how long after the first signal another one counts: timeout(1) and terminals may send one signal twice.
const secondSignalAfter = 500 * time.Millisecond

// interrupts is what ends a job that belongs to this terminal.
type interrupts struct {
	signals <-chan os.Signal
	broken  <-chan os.Signal // nobody reads what was written, be it the output or a connection
}

// interruptions cancels the job once a signal has come and its id is known, and leaves when one more signal comes, or when nobody reads the output.
func (w *world) interruptions(ctx context.Context, client *api.Client, in interrupts, known <-chan cluster.JobID, leave context.CancelCauseFunc) {
	var id cluster.JobID
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case id = <-known:
			if !first.IsZero() {
				go w.cancelAttended(client, id)
			}
		case <-in.broken:
			if !w.unread() {
				continue // it was a connection, and the client goes on with another
			}
			if id != 0 && first.IsZero() {
				w.cancelAttended(client, id)
			}
			leave(errPipe)
			return
		case <-in.signals:
			switch {
			case !first.IsZero() && w.now().Sub(first) >= secondSignalAfter:
				leave(errInterrupted)
				return
			case !first.IsZero():
			case id == 0:
				first = w.now()
				fmt.Fprintln(w.stderr, "rota: the job is cancelled as soon as it is in; once more leaves at once")
			default:
				first = w.now()
				go w.cancelAttended(client, id)
			}
		}
	}
}

func (w *world) cancelAttended(client *api.Client, id cluster.JobID) {
	fmt.Fprintf(w.stderr, "rota: cancelling job %d; once more leaves at once\n", id)
	ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
	defer cancel()
	if err := client.Cancel(ctx, id, "interrupted"); err != nil {
		w.printError(false, fmt.Errorf("cancel job %d: %w", id, err))
	}
}

// followSubmitted is --follow: Ctrl-C leaves the job alone.
func (w *world) followSubmitted(parent context.Context, client *api.Client, id cluster.JobID) error {
	ctx, stop := interruptible(parent)
	defer stop()
	job, err := w.follow(ctx, client, id)
	if err != nil {
		return w.left(ctx, id, err)
	}
	return w.endWith(job)
}

// awaitSubmitted is --wait.
func (w *world) awaitSubmitted(parent context.Context, client *api.Client, id cluster.JobID) error {
	ctx, stop := interruptible(parent)
	defer stop()
	job, err := w.awaitEnd(ctx, client, id)
	if err != nil {
		return w.left(ctx, id, err)
	}
	return w.endWith(job)
}

func (w *world) left(ctx context.Context, id cluster.JobID, err error) error {
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return fmt.Errorf("job %d goes on (\"rota cancel %d\" stops it): %w", id, id, errInterrupted)
	}
	return fmt.Errorf("job %d: %w", id, err)
}

// endWith ends the command with the job's code, and says on stderr what the code alone does not.
func (w *world) endWith(job *api.Job) error {
	code, note := jobCode(job)
	if note != "" {
		fmt.Fprintf(w.stderr, "rota: job %d %s\n", job.ID, clean(note))
	}
	if code == exitOK {
		return nil
	}
	return &codeError{code: code}
}

// jobCode is the exit code that stands for how a job ended, with what there is to say about it.
func jobCode(j *api.Job) (code int, note string) {
	own := j.ExitCode
	if j.Signal != 0 {
		own = 128 + j.Signal
	}
	switch j.Code {
	case cluster.Completed:
		return exitOK, ""
	case cluster.TimedOut:
		return ownTimeout, "reached its time limit of " + clockText(j.TimeLimit)
	case cluster.OutOfMemory:
		return exitOOM, "ran out of memory"
	case cluster.NodeFailed, cluster.BootFailed:
		return ownFailed, "ended as " + j.State + ": " + reasonText(j.Reason)
	case cluster.Cancelled:
		if own == 0 {
			own = ownFailed
		}
		return own, "was cancelled"
	}
	if own == 0 {
		return ownFailed, "ended as " + j.State + ": " + reasonText(j.Reason)
	}
	return own, ""
}

// wait waits for every job, or with --any for the first, and ends with the highest code.
func (w *world) wait(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	refs, err := someJobs(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	bounded, cancel, err := within(c.Context, c)
	if err != nil {
		return err
	}
	defer cancel()
	ctx, stop := interruptible(bounded)
	defer stop()
	highest, err := w.endsOf(ctx, client, refs, c.Bool("any"), asJSON)
	if err != nil {
		return err
	}
	if highest != exitOK {
		return &codeError{code: highest}
	}
	return nil
}

// end is how the wait for one job ended.
type end struct {
	ref string
	job *api.Job
	err error
}

// endsOf waits for jobs in parallel, tells of each in the order in which they were named, or only of the first that ends, and returns the
// highest code. One that cannot be waited for ends it at once.
func (w *world) endsOf(ctx context.Context, client *api.Client, refs []string, first, asJSON bool) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make([]chan end, len(refs))
	merged, failed := make(chan end, len(refs)), make(chan end, len(refs))
	for i, ref := range refs {
		ends[i] = make(chan end, 1)
		go func() {
			e := end{ref: ref}
			var id cluster.JobID
			if id, e.err = idOf(ctx, client, ref); e.err == nil {
				e.job, e.err = w.awaitEnd(ctx, client, id)
			}
			merged <- e
			if e.err != nil {
				failed <- e
				return
			}
			ends[i] <- e
		}()
	}
	if first {
		return w.tellEnd(<-merged, asJSON)
	}
	highest := exitOK
	for _, ch := range ends {
		var e end
		select {
		case e = <-ch:
		case e = <-failed:
		}
		code, err := w.tellEnd(e, asJSON)
		if err != nil {
			return 0, err
		}
		highest = max(highest, code)
	}
	return highest, nil
}

func (w *world) tellEnd(e end, asJSON bool) (int, error) {
	if e.err != nil {
		return 0, about("job "+e.ref, e.err)
	}
	if asJSON {
		if err := printJSON(w.stdout, e.job); err != nil {
			return 0, err
		}
	}
	code, note := jobCode(e.job)
	if note != "" {
		fmt.Fprintf(w.stderr, "rota: job %s %s\n", e.ref, clean(note))
	}
	return code, nil
}

// sbatchHint says of an option of sbatch that run does not have, but submit.
func sbatchHint(flag string) string {
	word, _, _ := strings.Cut(flag, "=")
	name := strings.TrimLeft(word, "-")
	honoured := slices.ContainsFunc(script.Flags(), func(s script.Spec) bool {
		short := s.Short != 0 && !strings.HasPrefix(flag, "--") && strings.HasPrefix(name, string(s.Short))
		return s.Honoured() && (s.Name == name || slices.Contains(s.Also, name) || short)
	})
	if !honoured {
		return ""
	}
	return fmt.Sprintf("rota submit has %s: rota submit --follow OPTIONS --wrap COMMAND; \"rota help run\" lists what run has", word)
}
