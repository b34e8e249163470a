// Package follow waits for jobs and shows their output while they run. It keeps retrying while no
// controller answers.
package follow

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

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// PollWait is how long one long poll stays open.
const PollWait = 50 * time.Second

// progressWait is how often progress is read for a terminal. No log entry announces progress.
const progressWait = 3 * time.Second

// quietWait is how long a wait takes before a terminal shows what is waited for.
const quietWait = time.Second

// WaitForEnd waits for a job to end, and returns it. If stderr is a terminal, and the wait takes longer
// than quietWait, it shows what the job does.
func WaitForEnd(ctx context.Context, session *command.Session, id model.JobID) (*api.Job, error) {
	if !session.IsTerminal(session.Stderr) {
		return WaitFor(ctx, session, id, PollWait, PollWait, func(j *api.Job) bool { return j.Code.Final() })
	}
	say, answers := stateReporter(session.Env), 0
	return WaitFor(ctx, session, id, quietWait, progressWait, func(j *api.Job) bool {
		if answers++; answers > 1 && !j.Code.Final() {
			say(j)
		}
		return j.Code.Final()
	})
}

// WaitFor polls a job until wanted returns true for it. wanted sees every answer. The first comes
// at once, the next at a change or after the time first, and others at a change or after wait.
func WaitFor(ctx context.Context, session *command.Session, id model.JobID, first, wait time.Duration,
	wanted func(*api.Job) bool) (*api.Job, error) {
	var read api.Read
	next := first
	away := Retry{Env: session.Env, What: JobGoesOn(id)}
	for {
		job, answer, err := session.Job(ctx, id, read)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err != nil {
			if away.ShouldRetry(ctx, err) {
				continue
			}
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		away.Answered()
		if wanted(job) {
			return job, nil
		}
		read = api.Read{After: max(answer.Index, 1), Wait: next}
		next = wait
	}
}

// JobGoesOn returns the note that a job continues while no controller answers.
func JobGoesOn(id model.JobID) string { return fmt.Sprintf("job %d continues", id) }

// Job shows a job's output until it ends, and returns the job. If stderr is a terminal, it also
// shows changes of the job's state.
func Job(ctx context.Context, session *command.Session, id model.JobID) (*api.Job, error) {
	first, wait, say := PollWait, PollWait, func(*api.Job) {}
	if session.IsTerminal(session.Stderr) {
		first, wait, say = quietWait, progressWait, stateReporter(session.Env)
	}
	begun := make(chan *api.Job, 1)
	streams := make(chan error, 1)
	go func() {
		select {
		case job := <-begun:
			streams <- streamAll(ctx, session, job)
		case <-ctx.Done():
			streams <- nil
		}
	}()
	started, reported := false, false
	job, err := WaitFor(ctx, session, id, first, wait, func(j *api.Job) bool {
		if note := OutputElsewhere(j); note != "" && !reported {
			reported = true
			session.Notef("%s", note)
		}
		say(j)
		if !started && j.Attempt > 0 {
			started = true
			begun <- j
		}
		return j.Code.Final()
	})
	if err != nil {
		return nil, err
	}
	if !started {
		return job, nil // it ended before it ran
	}
	// a job that never started has no output
	if err := <-streams; err != nil && !(job.Code != model.Completed && exit.IsNotFound(err)) {
		return nil, fmt.Errorf("read its output: %w", err)
	}
	return job, nil
}

// OutputElsewhere returns a note for an array or a pipeline job, which has no output itself: where
// its output is. It returns "" for other jobs.
func OutputElsewhere(j *api.Job) string {
	switch {
	case show.IsArray(j):
		return fmt.Sprintf("job %d is an array: \"rota logs %d_INDEX\" shows the output of one task", j.ID, j.ID)
	case show.IsPipeline(j):
		return fmt.Sprintf("job %d runs its groups one after the other: \"rota logs %d.%s\" shows the output of the first",
			j.ID, j.ID, j.Groups[0].Name)
	}
	return ""
}

// stateReporter returns a function that prints a line to stderr when a job's state or progress
// changes.
func stateReporter(env *command.Env) func(*api.Job) {
	var last string
	return func(j *api.Job) {
		text := fmt.Sprintf("job %d %s", j.ID, j.State)
		if j.Code == model.Pending && j.Reason.Code != "" {
			text += ": " + show.Reason(j.Reason)
		}
		if j.Code == model.Running {
			text += " on " + show.Hosts(j.Nodes)
			if j.Steps > 0 {
				text += fmt.Sprintf(", step %d", j.Steps)
			}
		}
		if text == last {
			return
		}
		last = text
		if env.Colour(env.Stderr) {
			text = "\x1b[2m" + text + "\x1b[0m"
		}
		fmt.Fprintln(env.Stderr, text)
	}
}

// streamAll shows the output of every worker. With several workers, each line begins with the
// worker's number.
func streamAll(ctx context.Context, session *command.Session, job *api.Job) error {
	var lock sync.Mutex
	var failed error
	var running sync.WaitGroup
	for worker := range max(job.Workers, 1) {
		for _, s := range outputsOf(job) {
			out := session.Stdout
			if s == "stderr" {
				out = session.Stderr
			}
			if job.Workers > 1 {
				p := &prefixer{out: out, lock: &lock, prefix: fmt.Sprintf("%d: ", worker)}
				defer p.flush()
				out = p
			}
			running.Go(func() {
				err := Output(ctx, session, job.ID, api.LogOptions{Worker: worker, Stream: s, Follow: true}, out, "")
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

// outputsOf returns the streams in which a job's output is stored.
func outputsOf(job *api.Job) []string {
	if t := leaderTask(job); t != nil && t.Log != nil && t.Log.Join != nil && !*t.Log.Join {
		return []string{"stdout", "stderr"}
	}
	return []string{"stdout"}
}

// leaderTask returns the task whose output is shown: the leader of the main tasks of the job's
// group.
func leaderTask(job *api.Job) *jobspec.Task {
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

// streamRetries bounds how often a broken stream is resumed without progress.
const streamRetries = 20

// Output copies one stream to out. If the connection breaks, it asks again and skips what was
// shown. While no controller answers, it keeps retrying, and prints meanwhile once unless that is
// empty.
func Output(ctx context.Context, session *command.Session, id model.JobID, o api.LogOptions,
	out io.Writer, meanwhile string) error {
	away := Retry{Env: session.Env, What: meanwhile, Quiet: meanwhile == ""}
	away.Answered() // the job was read just before
	var shown int64
	over := false
	for attempt := 0; ; {
		n, err := streamOnce(ctx, session.Client, id, o, out, shown)
		if n > shown {
			shown, attempt = n, 0
			away.Answered()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		var broken *brokenError
		switch {
		case errors.As(err, &broken) && attempt < streamRetries && o.Tail == 0:
			attempt++
		case o.Follow && exit.IsNotFound(err) && !over: // the node may not have started it yet
			job, _, jobErr := session.Job(ctx, id, api.Read{})
			if jobErr != nil && !away.ShouldRetry(ctx, jobErr) {
				return err
			}
			over = jobErr == nil && job.Code.Final()
		case o.Follow && away.ShouldRetry(ctx, err):
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

// brokenError is a stream that was cut off before its end.
type brokenError struct{ err error }

// Error implements error.
func (e *brokenError) Error() string { return "the output was cut off: " + e.err.Error() }

// Unwrap returns the error of the connection.
func (e *brokenError) Unwrap() error { return e.err }

// streamOnce copies a stream after its first skip bytes, and returns how many bytes have been shown
// in all.
func streamOnce(ctx context.Context, client *api.Client, id model.JobID, o api.LogOptions, out io.Writer,
	skip int64) (int64, error) {
	body, err := client.Logs(ctx, id, o)
	if err != nil {
		return skip, err
	}
	defer body.Close()
	if n, err := io.CopyN(io.Discard, body, skip); err != nil {
		if errors.Is(err, io.EOF) { // an earlier attempt was shown, and this one's output is shorter
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

// prefixer writes whole lines with a prefix, so that several workers can share an output.
type prefixer struct {
	out    io.Writer
	lock   *sync.Mutex
	prefix string
	part   []byte // the last line, without its end
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

// flush writes the last line if it has no end.
func (p *prefixer) flush() {
	if len(p.part) > 0 {
		_, _ = p.Write([]byte{'\n'})
	}
}

// Outputs shows the output of all workers: one after the other, or all at once with o.Follow.
func Outputs(ctx context.Context, session *command.Session, job *api.Job, o api.LogOptions) error {
	if job.Workers <= 1 {
		o.Worker = 0
		return Output(ctx, session, job.ID, o, session.Stdout, JobGoesOn(job.ID))
	}
	var lock sync.Mutex
	var running sync.WaitGroup
	failures := make([]error, job.Workers)
	for worker := range job.Workers {
		meanwhile := ""
		if worker == 0 { // one worker prints the note for all
			meanwhile = JobGoesOn(job.ID)
		}
		each := o
		each.Worker = worker
		show := func() {
			p := &prefixer{out: session.Stdout, lock: &lock, prefix: fmt.Sprintf("%d: ", worker)}
			failures[worker] = Output(ctx, session, job.ID, each, p, meanwhile)
			p.flush()
		}
		if o.Follow {
			running.Go(show)
		} else {
			show()
		}
	}
	running.Wait()
	return errors.Join(slices.CompactFunc(failures, func(a, b error) bool {
		return a != nil && b != nil && a.Error() == b.Error()
	})...)
}
