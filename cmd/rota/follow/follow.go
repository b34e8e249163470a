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
	return waitFor(ctx, session, id, first, wait, Retry{Env: session.Env, What: JobGoesOn(id)}, wanted)
}

func waitFor(ctx context.Context, session *command.Session, id model.JobID, first, wait time.Duration, away Retry,
	wanted func(*api.Job) bool) (*api.Job, error) {
	var read api.Read
	next := first
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
	jobs := newMailbox()
	streams := make(chan error, 1)
	begun, reported := false, false
	job, err := WaitFor(ctx, session, id, first, wait, func(j *api.Job) bool {
		if note := OutputElsewhere(j); note != "" && !reported {
			reported = true
			session.Notef("%s", note)
		}
		say(j)
		jobs.put(j)
		if !begun && j.Attempt > 0 {
			begun = true
			shown := &following{session: session, options: api.LogOptions{Worker: -1}, streams: streamsOf(session, j),
				jobs: jobs}
			go func() { streams <- shown.from(ctx, 1) }()
		}
		return j.Code.Final()
	})
	if err != nil {
		return nil, err
	}
	if !begun {
		return job, nil // it ended before it ran
	}
	// a job that never started has no output
	err = <-streams
	for i := range job.Attempts {
		noteLosses(session, job, job.Attempts[i].N, -1)
	}
	if err != nil && !(job.Code != model.Completed && exit.IsNotFound(err)) {
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
		return fmt.Sprintf("job %d runs its groups one after another: \"rota logs %d.%s\" shows the output of the first",
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

// streamsOf returns the streams of a job's output, and where each goes.
func streamsOf(session *command.Session, job *api.Job) map[string]io.Writer {
	streams := map[string]io.Writer{}
	for _, name := range outputsOf(job) {
		streams[name] = session.Stdout
		if name == "stderr" {
			streams[name] = session.Stderr
		}
	}
	return streams
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

// nodeWait is how long the output of an attempt that is over is asked for while its node does not
// answer. Its daemon may be restarting.
const nodeWait = time.Minute

// Output copies one stream to out. If the connection breaks, it asks again and skips what was
// shown. While no controller answers, or with o.Follow the node, it keeps retrying, and prints
// meanwhile once unless that is empty. It returns nil only if the stream is complete.
func Output(ctx context.Context, session *command.Session, id model.JobID, o api.LogOptions,
	out io.Writer, meanwhile string) error {
	away := Retry{Env: session.Env, What: meanwhile, Quiet: meanwhile == ""}
	away.Answered() // the job was read just before
	var at place
	var overSince time.Time // since when the attempt is known to be over; zero: it is not
	for attempt := 0; ; {
		before := at.shown
		err := streamOnce(ctx, session.Client, id, o, out, &at)
		if at.shown > before {
			attempt = 0
			away.Answered()
		}
		if at.opened && at.start >= 0 {
			o.Tail = 0 // the stream goes on from its beginning, and what comes before is skipped
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		was := overSince
		if o.Follow && (exit.IsNotFound(err) || nodeAway(err)) && was.IsZero() {
			job, _, jobErr := session.Job(ctx, id, api.Read{})
			switch {
			case jobErr != nil && !away.ShouldRetry(ctx, jobErr):
				return err
			case jobErr == nil && (job.Code.Final() || o.Attempt != 0 && job.Attempt > o.Attempt):
				overSince = session.Now()
			}
		}
		var broken *brokenError
		switch {
		case errors.As(err, &broken) && attempt < streamRetries && o.Tail == 0:
			attempt++
		case o.Follow && exit.IsNotFound(err) && was.IsZero(): // the node may not have started it yet
		case nodeAway(err) && !was.IsZero() && session.Now().Sub(was) > nodeWait:
			return err
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

// errShorter is the error for an output whose beginning went while its stream was broken.
var errShorter = errors.New("the connection broke, and the node has since removed older output: rota logs shows the " +
	"rest")

// brokenError is a stream that was cut off before its end.
type brokenError struct{ err error }

// Error implements error.
func (e *brokenError) Error() string { return "the connection to the output broke: " + e.err.Error() }

// Unwrap returns the error of the connection.
func (e *brokenError) Unwrap() error { return e.err }

// place is a place in the output of a stream.
type place struct {
	opened bool  // the stream was opened once
	start  int64 // bytes before the first one that is shown: those that --tail leaves out; -1: unknown
	shown  int64 // bytes that were shown
}

// streamOnce copies a stream from a place on, and moves the place behind what it has shown.
func streamOnce(ctx context.Context, client *api.Client, id model.JobID, o api.LogOptions, out io.Writer,
	at *place) error {
	body, err := client.Logs(ctx, id, o)
	if err != nil {
		return err
	}
	defer body.Close()
	skip := at.start + at.shown
	if !at.opened {
		at.opened, at.start, skip = true, body.Start, 0
	}
	if n, err := io.CopyN(io.Discard, body, skip); err != nil {
		switch {
		case errors.Is(err, io.EOF) && o.Attempt != 0:
			return errShorter
		case errors.Is(err, io.EOF): // an earlier attempt was shown, and this one's output is shorter
			at.shown = max(0, n-at.start)
			return nil
		}
		return &brokenError{err}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			at.shown += int64(n)
			if _, err := out.Write(buf[:n]); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &brokenError{err}
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

// Logs shows the output of a job as rota logs does: of one worker, or of all if o.Worker is negative.
// With all it shows the attempts before the last one too, each below a line with its number.
func Logs(ctx context.Context, session *command.Session, job *api.Job, o api.LogOptions, all bool) error {
	attempts := []int{o.Attempt}
	if all {
		attempts = append(Earlier(job), job.Attempt)
	}
	if o.Follow && o.Attempt == 0 && !job.Code.Final() {
		return followLogs(ctx, session, job, o, attempts[0])
	}
	var failed error
	for _, n := range attempts {
		o.Attempt = n
		if len(attempts) > 1 {
			fmt.Fprintln(session.Stdout, headOf(n))
		}
		failed = errors.Join(failed, outputs(ctx, session, job, o))
	}
	if o.Follow && !job.Code.Final() { // more may be lost by now
		if newer, _, err := session.Job(ctx, job.ID, api.Read{}); err == nil {
			job = newer
		}
	}
	for _, n := range attempts {
		noteLosses(session, job, cmp.Or(n, job.Attempt), o.Worker)
	}
	return failed
}

// noteLosses says which output of an attempt could not be written: of one worker or, if worker is
// negative, of all and of steps.
func noteLosses(session *command.Session, job *api.Job, n, worker int) {
	for i := range job.Attempts {
		if a := &job.Attempts[i]; a.N == n {
			for _, text := range show.OutputLosses(job.ID, a, worker) {
				session.Notef("%s", text)
			}
		}
	}
}

// followLogs shows the output of a job until it ends, from attempt first on. 0 stands for the last
// attempt, or for the next one of a pending job.
func followLogs(ctx context.Context, session *command.Session, job *api.Job, o api.LogOptions, first int) error {
	heads := first > 0
	if first == 0 {
		first = max(job.Attempt, 1)
		if job.Code == model.Pending && job.Attempt > 0 {
			first++
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shown := &following{session: session, options: o, streams: map[string]io.Writer{o.Stream: session.Stdout},
		note: JobGoesOn(job.ID), heads: heads, jobs: newMailbox()}
	shown.jobs.put(job)
	quiet := Retry{Env: session.Env, Quiet: true}
	quiet.Answered()
	go func() {
		_, err := waitFor(ctx, session, job.ID, PollWait, PollWait, quiet, func(j *api.Job) bool {
			shown.jobs.put(j)
			return j.Code.Final()
		})
		if err != nil {
			cancel(err)
		}
	}()
	failed := shown.from(ctx, first)
	last := shown.jobs.newest()
	for n := first; n <= last.Attempt; n++ {
		noteLosses(session, last, n, o.Worker)
	}
	return failed
}

// outputs shows the output of one worker, or of all, one after the other.
func outputs(ctx context.Context, session *command.Session, job *api.Job, o api.LogOptions) error {
	n := o.Attempt
	if n == 0 {
		n = job.Attempt
	}
	count := max(workersOf(job, n), 1)
	if o.Worker >= 0 || count == 1 {
		o.Worker = max(o.Worker, 0)
		return Output(ctx, session, job.ID, o, session.Stdout, JobGoesOn(job.ID))
	}
	var lock sync.Mutex
	var failures []error
	for worker := range count {
		o.Worker = worker
		p := &prefixer{out: session.Stdout, lock: &lock, prefix: fmt.Sprintf("%d: ", worker)}
		note := ""
		if worker == 0 { // one worker prints the note for all
			note = JobGoesOn(job.ID)
		}
		if err := Output(ctx, session, job.ID, o, p, note); err != nil {
			failures = append(failures, err)
		}
		p.flush()
	}
	return joined(failures)
}
