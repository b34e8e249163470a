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
	"github.com/rota-hpc/rota/controld/model"
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

// attempt shows the output of one attempt to its end: of the workers that it has, and of workers
// that join it while it runs.
func (f *following) attempt(ctx context.Context, job *api.Job, n int) error {
	if f.heads && workersOf(job, n) > 0 {
		fmt.Fprintln(f.session.Stdout, headOf(n))
	}
	s := &shownAttempt{following: f, n: n, note: f.note, failed: make(chan struct{}),
		prefixes: f.options.Worker < 0 && (workersOf(job, n) > 1 || mayGrow(job))}
	for {
		s.start(ctx, job)
		if f.options.Worker >= 0 && f.options.Worker < workersOf(job, n) || isOver(job, n) {
			break
		}
		newer, err := f.jobs.newerThan(ctx, job, s.failed)
		if err != nil || newer == nil {
			break // its streams end too, or one has failed
		}
		job = newer
	}
	s.running.Wait()
	return joined(s.failures)
}

// mayGrow reports whether a job with one worker may have more.
func mayGrow(job *api.Job) bool { return job.Elastic != nil && job.Elastic.Max > 1 }

// isOver reports whether attempt n of a job is over, so that no worker joins it any more.
func isOver(job *api.Job, n int) bool {
	return job.Code.Final() || job.Attempt != n || job.Code == model.Pending
}

// shownAttempt is an attempt whose workers are followed.
type shownAttempt struct {
	*following
	n        int
	note     string // one of the streams prints it for all
	later    bool   // the workers that the attempt had at first are followed: others are shown whole
	prefixes bool   // each line is headed by its worker
	running  sync.WaitGroup
	failed   chan struct{} // closed when a stream has failed

	lock     sync.Mutex // of the following, and of lines
	follows  map[int]int
	failures []error
}

// start follows the workers of the attempt that are not followed yet. A worker that has left in a
// resize, and whose output is complete, is followed again when another one joins in its place.
func (s *shownAttempt) start(ctx context.Context, job *api.Job) {
	count := workersOf(job, s.n)
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.follows == nil {
		s.follows = map[int]int{}
	}
	for worker, streams := range s.follows {
		if worker >= count && streams == 0 {
			delete(s.follows, worker)
		}
	}
	first, end := 0, count
	if w := s.options.Worker; w >= 0 {
		first, end = w, min(w+1, count)
	}
	for worker := first; worker < end; worker++ {
		if _, followed := s.follows[worker]; followed {
			continue
		}
		s.follows[worker] = len(s.streams)
		for _, stream := range slices.Sorted(maps.Keys(s.streams)) {
			s.follow(ctx, job, worker, stream)
		}
	}
	s.later = true
}

// follow follows one stream of a worker. The lock is held.
func (s *shownAttempt) follow(ctx context.Context, job *api.Job, worker int, stream string) {
	o := s.options
	o.Worker, o.Stream, o.Attempt, o.Follow = worker, stream, s.n, true
	if s.later {
		o.Tail = 0
	}
	out, flush := s.streams[stream], func() {}
	if s.prefixes {
		p := &prefixer{out: out, lock: &s.lock, prefix: fmt.Sprintf("%d: ", worker)}
		out, flush = p, p.flush
	}
	note := s.note
	s.note = ""
	s.running.Go(func() {
		err := Output(ctx, s.session, job.ID, o, out, note)
		flush()
		s.lock.Lock()
		defer s.lock.Unlock()
		s.follows[worker]--
		if err != nil && !s.hasLeft(o, err) {
			if s.failures = append(s.failures, err); len(s.failures) == 1 {
				close(s.failed)
			}
		}
	})
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

// newerThan returns the next answer after job; nil once stop is closed.
func (m *mailbox) newerThan(ctx context.Context, job *api.Job, stop <-chan struct{}) (*api.Job, error) {
	for {
		m.lock.Lock()
		j, changed := m.job, m.changed
		m.lock.Unlock()
		if j != job {
			return j, nil
		}
		select {
		case <-changed:
		case <-stop:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
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
