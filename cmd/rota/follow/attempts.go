package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// following shows the output of a job while it runs: one attempt after the other, and all workers of an
// attempt at once. A place in the output is an attempt and a number of bytes. So a broken stream goes
// on where it was, even if another attempt runs by then.
type following struct {
	session *command.Session
	options api.LogOptions       // of the first attempt that is shown; Worker -1: all
	streams map[string]io.Writer // the streams, and where each goes
	note    string               // printed while nothing answers, such as that the job continues; "": no line is printed
	heads   bool                 // each attempt is headed by its number
	jobs    *mailbox
}

// from shows the output from attempt n on, until the job has ended.
func (f *following) from(ctx context.Context, n int) error {
	var failed error
	for first := n; ; n++ {
		job, err := f.jobs.await(ctx, n)
		if err != nil {
			return errors.Join(failed, err)
		}
		if job.Attempt < n {
			return failed
		}
		if n > first {
			f.options.Tail = 0 // a later attempt is shown whole
		}
		failed = errors.Join(failed, f.attempt(ctx, job, n))
	}
}

// attempt shows the output of one attempt to its end.
func (f *following) attempt(ctx context.Context, job *api.Job, n int) error {
	count := workersOf(job, n)
	workers := []int{f.options.Worker}
	if f.options.Worker < 0 {
		workers = make([]int, count)
		for i := range workers {
			workers[i] = i
		}
	}
	if f.heads && count > 0 {
		fmt.Fprintln(f.session.Stdout, headOf(n))
	}
	var lock sync.Mutex
	var running sync.WaitGroup
	failures := make([]error, 0, len(workers)*len(f.streams))
	note := f.note // one of the streams prints it for all
	for _, worker := range workers {
		if worker >= count { // the attempt has fewer
			continue
		}
		for _, stream := range slices.Sorted(maps.Keys(f.streams)) {
			o := f.options
			o.Worker, o.Stream, o.Attempt, o.Follow = worker, stream, n, true
			out, flush := f.streams[stream], func() {}
			if len(workers) > 1 {
				p := &prefixer{out: out, lock: &lock, prefix: fmt.Sprintf("%d: ", worker)}
				out, flush = p, p.flush
			}
			own := note
			note = ""
			running.Go(func() {
				err := Output(ctx, f.session, job.ID, o, out, own)
				flush()
				if err != nil && !f.hasLeft(o, err) {
					lock.Lock()
					failures = append(failures, err)
					lock.Unlock()
				}
			})
		}
	}
	running.Wait()
	return joined(failures)
}

// hasLeft reports whether an error says that a worker has left an attempt that goes on without it.
func (f *following) hasLeft(o api.LogOptions, err error) bool {
	if !exit.IsNotFound(err) {
		return false
	}
	job := f.jobs.newest()
	return job != nil && workersOf(job, o.Attempt) <= o.Worker
}

// joined joins errors, each text once.
func joined(failures []error) error {
	slices.SortFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(slices.CompactFunc(failures, func(a, b error) bool { return a.Error() == b.Error() })...)
}

// headOf is the line above the output of an attempt.
func headOf(n int) string { return fmt.Sprintf("==> attempt %d <==", n) }

// workersOf returns how many workers attempt n of a job has, 0 if the controllers do not know it any
// more.
func workersOf(job *api.Job, n int) int {
	for i := range job.Attempts {
		if a := &job.Attempts[i]; a.N == n && a.Workers > 0 {
			return a.Workers
		}
	}
	if n == job.Attempt {
		return max(job.Workers, 1)
	}
	return 0
}

// Earlier returns the numbers of the attempts before the last whose output is apart from it, oldest
// first. Attempts that write to one file of the user's have one output.
func Earlier(job *api.Job) []int {
	if t := leaderTask(job); t != nil && sharesFile(t.Log) {
		return nil
	}
	var earlier []int
	for i := range job.Attempts {
		if n := job.Attempts[i].N; n < job.Attempt {
			earlier = append(earlier, n)
		}
	}
	return earlier
}

// sharesFile reports whether all attempts write to one file. A path with %r is of one attempt.
func sharesFile(l *jobspec.Log) bool {
	return l != nil && l.Stdout != "" && !strings.Contains(l.Stdout, "%r")
}

// mailbox holds the newest of a job's answers.
type mailbox struct {
	lock    sync.Mutex
	job     *api.Job
	changed chan struct{} // closed when another job is put
}

func newMailbox() *mailbox { return &mailbox{changed: make(chan struct{})} }

func (m *mailbox) put(j *api.Job) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.job = j
	close(m.changed)
	m.changed = make(chan struct{})
}

// newest returns the newest answer, nil before the first one.
func (m *mailbox) newest() *api.Job {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.job
}

// await returns the job once attempt n has begun, or once the job has ended.
func (m *mailbox) await(ctx context.Context, n int) (*api.Job, error) {
	for {
		m.lock.Lock()
		j, changed := m.job, m.changed
		m.lock.Unlock()
		if j != nil && (j.Attempt >= n || j.Code.Final()) {
			return j, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
