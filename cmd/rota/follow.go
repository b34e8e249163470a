package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// progressWait is how often a terminal is told of progress, which no log entry announces.
const progressWait = 3 * time.Second

// awaitEnd waits for a job to end.
func (w *world) awaitEnd(ctx context.Context, client *api.Client, id cluster.JobID) (*api.Job, error) {
	return w.awaitJob(ctx, client, id, pollWait, ended)
}

// awaitJob polls a job until it is as wanted; wanted sees every answer.
func (w *world) awaitJob(ctx context.Context, client *api.Client, id cluster.JobID, wait time.Duration, wanted func(*api.Job) bool) (*api.Job, error) {
	var read api.Read
	away := patience{world: w, what: goesOn(id)}
	for {
		job, answer, err := client.Job(ctx, id, read)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err != nil {
			if away.bears(ctx, err) {
				continue
			}
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		away.answered()
		if wanted(job) {
			return job, nil
		}
		read = api.Read{After: max(answer.Index, 1), Wait: wait}
	}
}

func goesOn(id cluster.JobID) string { return fmt.Sprintf("job %d goes on", id) }

// follow shows a job's output until it ends. Where stderr is a terminal it also tells what becomes of the job.
func (w *world) follow(ctx context.Context, client *api.Client, id cluster.JobID) (*api.Job, error) {
	wait, say := pollWait, func(*api.Job) {}
	if w.terminal(w.stderr) {
		wait, say = progressWait, w.narrator()
	}
	begun := make(chan *api.Job, 1)
	streams := make(chan error, 1)
	go func() {
		select {
		case job := <-begun:
			streams <- w.streamAll(ctx, client, job)
		case <-ctx.Done():
			streams <- nil
		}
	}()
	started, told := false, false
	job, err := w.awaitJob(ctx, client, id, wait, func(j *api.Job) bool {
		if note := noOutputOfItsOwn(j); note != "" && !told {
			told = true
			fmt.Fprintln(w.stderr, "rota: "+note)
		}
		say(j)
		if !started && j.Attempt > 0 {
			started = true
			begun <- j
		}
		return ended(j)
	})
	if err != nil {
		return nil, err
	}
	if !started {
		return job, nil // it ended without ever having run
	}
	if err := <-streams; err != nil && !(job.Code != cluster.Completed && isNotFound(err)) { // what never began wrote nothing
		return nil, fmt.Errorf("read its output: %w", err)
	}
	return job, nil
}

// noOutputOfItsOwn says of a job that only stands for its members where output is to be had, "" of any other.
func noOutputOfItsOwn(j *api.Job) string {
	switch {
	case j.Array.Size > 0 && j.Array.Index == nil:
		return fmt.Sprintf("job %d is an array: \"rota logs %d_INDEX\" shows the output of an element", j.ID, j.ID)
	case len(j.Groups) > 0 && j.Groups[0].ID != 0:
		return fmt.Sprintf("job %d runs its groups one by one: \"rota logs %d.%s\" shows the output of the first", j.ID, j.ID, j.Groups[0].Name)
	}
	return ""
}

// isNotFound reports whether a controller said that there is no such thing.
func isNotFound(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeNotFound
}

// narrator returns a function that says on stderr when a job's state or progress has changed.
func (w *world) narrator() func(*api.Job) {
	var last string
	return func(j *api.Job) {
		text := fmt.Sprintf("job %d %s", j.ID, j.State)
		if j.Code == cluster.Pending && j.Reason.Code != "" {
			text += ": " + reasonText(j.Reason)
		}
		if j.Code == cluster.Running {
			text += " on " + hosts(j.Nodes)
			if j.Steps > 0 {
				text += fmt.Sprintf(", step %d", j.Steps)
			}
		}
		if text == last {
			return
		}
		last = text
		if w.colour(w.stderr) {
			text = "\x1b[2m" + text + "\x1b[0m"
		}
		fmt.Fprintln(w.stderr, text)
	}
}

// streamAll shows every worker's output, with the worker's number before each line when there are several.
func (w *world) streamAll(ctx context.Context, client *api.Client, job *api.Job) error {
	var lock sync.Mutex
	var failed error
	var running sync.WaitGroup
	for worker := range max(job.Workers, 1) {
		for _, s := range outputsOf(job) {
			out := w.stdout
			if s == "stderr" {
				out = w.stderr
			}
			if job.Workers > 1 {
				p := &prefixer{out: out, lock: &lock, prefix: fmt.Sprintf("%d: ", worker)}
				defer p.flush()
				out = p
			}
			running.Go(func() {
				err := w.stream(ctx, client, job.ID, api.LogOptions{Worker: worker, Stream: s, Follow: true}, out, "")
				if err != nil {
					lock.Lock()
					failed = errors.Join(failed, err)
					lock.Unlock()
				}
			})
		}
	}
	running.Wait()
	return failed
}

// outputsOf names the streams that a job's output is kept in.
func outputsOf(job *api.Job) []string {
	if t := leading(job); t != nil && t.Log != nil && t.Log.Join != nil && !*t.Log.Join {
		return []string{"stdout", "stderr"}
	}
	return []string{"stdout"}
}

// leading is the task whose output is shown: the leader of the main tasks of the group that the job runs.
func leading(job *api.Job) *jobspec.Task {
	if job.Spec == nil || len(job.Spec.Groups) == 0 {
		return nil
	}
	group := 0
	if job.Group != nil {
		group = max(0, slices.IndexFunc(job.Spec.Groups, func(g jobspec.Group) bool { return g.Name == job.Group.Name }))
	}
	var first *jobspec.Task
	for i := range job.Spec.Groups[group].Tasks {
		switch t := &job.Spec.Groups[group].Tasks[i]; {
		case t.Lifecycle != nil:
		case t.Leader != nil && *t.Leader:
			return t
		case first == nil:
			first = t
		}
	}
	return first
}

// streamRetries bounds how often a stream is taken up again without anything having come of it.
const streamRetries = 20

// stream copies one stream to out. When the controller that serves it goes away, another is asked, and what was shown is skipped.
// While none answers it says what happens meanwhile, if anything, and waits for them.
func (w *world) stream(ctx context.Context, client *api.Client, id cluster.JobID, o api.LogOptions, out io.Writer, meanwhile string) error {
	away := patience{world: w, what: meanwhile, quiet: meanwhile == ""}
	away.answered() // of the job itself, just before
	var shown int64
	over := false
	for attempt := 0; ; {
		n, err := streamOnce(ctx, client, id, o, out, shown)
		if n > shown {
			shown, attempt = n, 0
			away.answered()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		var broken *brokenError
		switch {
		case errors.As(err, &broken) && attempt < streamRetries && o.Tail == 0:
			attempt++
		case o.Follow && isNotFound(err) && !over: // its node may not have begun yet
			job, _, jobErr := client.Job(ctx, id, api.Read{})
			if jobErr != nil && !away.bears(ctx, jobErr) {
				return err
			}
			over = jobErr == nil && ended(job)
		case o.Follow && away.bears(ctx, err):
			continue
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// brokenError says that a stream was cut off before its end.
type brokenError struct{ err error }

// Error implements error.
func (e *brokenError) Error() string { return "the output was cut off: " + e.err.Error() }

// Unwrap returns what the connection failed with.
func (e *brokenError) Unwrap() error { return e.err }

// streamOnce copies what follows the first skip bytes, and returns how many bytes have been shown in all.
func streamOnce(ctx context.Context, client *api.Client, id cluster.JobID, o api.LogOptions, out io.Writer, skip int64) (int64, error) {
	body, err := client.Logs(ctx, id, o)
	if err != nil {
		return skip, err
	}
	defer closeQuietly(body)
	if n, err := io.CopyN(io.Discard, body, skip); err != nil {
		if errors.Is(err, io.EOF) { // an earlier attempt had been shown; this one is shorter
			return n, nil
		}
		return skip, &brokenError{err}
	}
	copied := skip
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			copied += int64(n)
			if _, err := out.Write(buf[:n]); err != nil {
				return copied, fmt.Errorf("write: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return copied, nil
		}
		if err != nil {
			return copied, &brokenError{err}
		}
	}
}

// prefixer puts a prefix before every line and writes whole lines, so that several may share an output.
type prefixer struct {
	out    io.Writer
	lock   *sync.Mutex
	prefix string
	part   []byte // of a line that has no end yet
}

// Write implements io.Writer.
func (p *prefixer) Write(b []byte) (int, error) {
	n := len(b)
	p.lock.Lock()
	defer p.lock.Unlock()
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			p.part = append(p.part, b...)
			return n, nil
		}
		line := append([]byte(p.prefix), p.part...)
		line = append(line, b[:i+1]...)
		p.part, b = p.part[:0], b[i+1:]
		if _, err := p.out.Write(line); err != nil {
			return 0, err
		}
	}
}

// flush writes a last line that had no end.
func (p *prefixer) flush() {
	if len(p.part) > 0 {
		_, _ = p.Write([]byte{'\n'})
	}
}

// logs shows a job's output.
func (w *world) logs(c *cli.Context) error {
	if f := c.String("output"); f != "" {
		return usagef("-o %s: logs are printed as they are", f)
	}
	if c.Args().Len() != 1 {
		return usagef("rota logs takes one job: rota logs %s", c.Command.ArgsUsage)
	}
	ref, o, err := logOptions(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	id, err := idOf(ctx, client, ref)
	if err != nil {
		return err
	}
	if o.Worker >= 0 {
		return w.endOfLogs(ctx, w.stream(ctx, client, id, o, w.stdout, goesOn(id)))
	}
	job, _, err := client.Job(ctx, id, api.Read{})
	if err != nil {
		return err
	}
	return w.endOfLogs(ctx, w.allWorkers(ctx, client, job, o))
}

// endOfLogs takes Ctrl-C as the ordinary end of following.
func (w *world) endOfLogs(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// logOptions reads JOB[.WORKER] and the options. What follows the last dot is a worker if it is a number, else a group of the job.
func logOptions(c *cli.Context) (string, api.LogOptions, error) {
	o := api.LogOptions{Attempt: c.Int("attempt"), Worker: c.Int("worker"), Task: c.String("task"), Follow: c.Bool("follow"), Tail: c.Int("tail")}
	if c.Bool("stderr") {
		o.Stream = "stderr"
	}
	if o.Tail < 0 || o.Attempt < 0 {
		return "", o, usagef("--tail and --attempt take numbers from 1")
	}
	text := c.Args().First()
	if ref, worker, dotted := cutLast(text); dotted {
		if n, rest, ok := leadingInt(worker); ok && rest == "" {
			text, o.Worker = ref, int(n)
		}
	}
	refs, err := jobRefs([]string{text})
	if err != nil {
		return "", o, err
	}
	if len(refs) != 1 {
		return "", o, usagef("rota logs takes one job: rota logs %s", c.Command.ArgsUsage)
	}
	return refs[0], o, nil
}

// cutLast splits 7.1 into 7 and 1.
func cutLast(s string) (before, after string, found bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// allWorkers shows the output of every worker: one after the other, or all at once when following.
func (w *world) allWorkers(ctx context.Context, client *api.Client, job *api.Job, o api.LogOptions) error {
	if job.Workers <= 1 {
		o.Worker = 0
		return w.stream(ctx, client, job.ID, o, w.stdout, goesOn(job.ID))
	}
	var lock sync.Mutex
	var running sync.WaitGroup
	failures := make([]error, job.Workers)
	for worker := range job.Workers {
		meanwhile := ""
		if worker == 0 { // one of them says it
			meanwhile = goesOn(job.ID)
		}
		each := o
		each.Worker = worker
		show := func() {
			p := &prefixer{out: w.stdout, lock: &lock, prefix: fmt.Sprintf("%d: ", worker)}
			failures[worker] = w.stream(ctx, client, job.ID, each, p, meanwhile)
			p.flush()
		}
		if o.Follow {
			running.Go(show)
		} else {
			show()
		}
	}
	running.Wait()
	failures = slices.CompactFunc(failures, func(a, b error) bool { return a != nil && b != nil && a.Error() == b.Error() })
	return errors.Join(failures...)
}
