package simulate

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
	"github.com/rota-hpc/rota/controld/sim"
)

// tally is how far the runs of one phase have come. The runs count, and the terminal's line reads it.
type tally struct {
	runs int // of the phase

	mu    sync.Mutex
	begun []*runCount
}

// runCount is how far one run has come, in jobs.
type runCount struct{ ended, jobs atomic.Int64 }

// begin adds a run. jobs is how many jobs it has, 0 if that is unknown.
func (t *tally) begin(jobs int) *runCount {
	r := &runCount{}
	r.jobs.Store(int64(jobs))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = append(t.begun, r)
	return r
}

// read sums up the runs. Runs that have not begun count as large as the others.
func (t *tally) read() (done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.begun {
		done += r.ended.Load()
		jobs := r.jobs.Load()
		if jobs == 0 {
			return done, 0
		}
		total += jobs
	}
	if n := int64(len(t.begun)); n > 0 {
		total = total * int64(t.runs) / n
	}
	return done, total
}

// showRuns shows a phase of so many runs on the terminal until its result is called. Messages to standard
// error go above the line.
func (s *simulation) showRuns(what string, runs int) (over func()) {
	s.tally = &tally{runs: runs}
	line := progress.Show(s.env.Stderr, progress.Task{What: what, Unit: "jobs", Done: s.tally.read})
	if line == nil {
		return func() {}
	}
	terminal := s.env.Stderr
	s.env.Stderr = line
	return func() {
		line.Stop()
		s.env.Stderr = terminal
	}
}

// count has a run report to the tally, unless --progress has it print lines.
func (s *simulation) count(setup *sim.Setup, jobs int) *runCount {
	r := s.tally.begin(jobs)
	if setup.Progress == nil {
		setup.Progress = func(p sim.RunProgress) {
			r.ended.Store(int64(p.Finished))
		}
	}
	return r
}

// over counts all jobs of a run that is over, also those that it did not reach.
func (r *runCount) over() { r.ended.Store(r.jobs.Load()) }

// showReading shows on the terminal how much of the files has been read, until its result is called.
func (s *simulation) showReading(names []string) (over func()) {
	var total int64
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			total = 0 // the length of a pipe is unknown
			break
		}
		total += info.Size()
	}
	line := progress.Show(s.env.Stderr, progress.Task{What: "reading traces",
		Done: func() (int64, int64) { return s.bytesRead.Load(), total }})
	return line.Stop
}
