// Package jobsteps runs the steps of jobs. A step is a program inside the allocation of a job, as
// srun starts it. The node of the job's first worker has the [Manager]: it numbers steps, and gives
// them nodes, cores and GPUs. Every node of a step has a [Node], which starts its part: a container
// beside the job's worker there.
package jobsteps

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
	"github.com/rota-hpc/rota/noded/journal"
)

// Config has the parts and callbacks of a [Manager].
type Config struct {
	Name   string // of this node
	Local  *Local
	Remote func(name string) Node // another node
	// Journal keeps the running steps and the rows of ended ones for a restarted daemon.
	Journal interface {
		Append(records ...journal.Record) error
		Entry(id string) (journal.Entry, bool)
	}
	// Report takes the row of an ended step, after the journal has it. Rows of a job come in order.
	Report func(model.StepReport)
	// EndJob ends the first worker of a job that existed for one step alone, after the step's
	// client is gone. It returns when the worker has ended or was told to, or when ctx ends.
	EndJob func(ctx context.Context, id container.ID)
	// Idle is called when the last running step of a job has ended; it may be nil.
	Idle func(id container.ID)
	Log  *slog.Logger
}

// Manager starts and ends the steps of the jobs whose first workers run on this node.
type Manager struct {
	Config
	ctx  context.Context
	runs sync.WaitGroup

	mu   sync.Mutex
	jobs map[container.ID]*job
}

// NewManager returns a manager that works until ctx ends. Steps go on after that.
func NewManager(ctx context.Context, c Config) *Manager {
	return &Manager{Config: c, ctx: ctx, jobs: map[container.ID]*job{}}
}

// Wait returns when nothing of the manager runs any more, after its context has ended.
func (m *Manager) Wait() { m.runs.Wait() }

func (m *Manager) node(name string) Node {
	if name == m.Name {
		return m.Local
	}
	return m.Remote(name)
}

// job is an attempt of a job with its steps.
type job struct {
	m     *Manager
	id    container.ID        // of its first worker
	first int                 // its number in the attempt
	alloc []choose.Allocation // of the groups that start together

	ending sync.Mutex // held while a row is written, so that rows are reported in order

	mu      sync.Mutex
	next    int               // number of the next step
	rows    int               // rows written so far
	closed  bool              // no more steps start
	numbers map[int]*numbered // of steps that are not gone, see stage.go
	waiting []*waiter         // requests without a number, in order of arrival
	keys    map[string]int    // numbers of steps by the keys of their requests
	changed chan struct{}     // closed when a step has ended
}

func (j *job) jobID() model.JobID { return model.JobID(j.id.Job) }

// node returns the name of the node of a place, "" for an unknown place.
func (j *job) node(place int) string {
	for i := range j.alloc {
		if n := place - j.alloc[i].First; n >= 0 && n < len(j.alloc[i].Places) {
			return j.alloc[i].Places[n].Node
		}
	}
	return ""
}

// worker returns the worker of a place.
func (j *job) worker(place int) container.ID {
	return container.ID{Job: j.id.Job, Attempt: j.id.Attempt, Worker: j.first + place}
}

// find returns the job of a worker that runs here and is the first of its group. A job that is not
// in memory yet is made from the journal, and its steps go on.
func (m *Manager) find(id container.ID) (*job, error) {
	w, err := m.Local.Worker(id)
	if err != nil {
		return nil, err
	}
	if w.Alloc.Holds() || !w.Alloc.RunsSteps() {
		return nil, &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
			Detail: fmt.Sprintf("job %d runs no steps: its launch type is not steps", id.Job)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	if j == nil {
		j = m.newJob(id, w.Alloc)
		m.jobs[id] = j
	}
	return j, nil
}

func (m *Manager) newJob(id container.ID, a *api.Alloc) *job {
	j := &job{m: m, id: id, first: id.Worker, alloc: choose.Allocations(a), numbers: map[int]*numbered{},
		keys: map[string]int{}, changed: make(chan struct{})}
	if e, ok := m.Journal.Entry(id.String()); ok {
		j.next, j.rows = e.NextStep, e.Rows
		for _, u := range e.Unread {
			j.keys[u.Key] = u.N
		}
		j.recover(e.Steps)
	}
	return j
}

// recover goes on with the steps that an earlier daemon has started. All their shares are held
// again before the first new request is looked at.
func (j *job) recover(steps []journal.Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range steps {
		var st stepState
		if s.Report != nil || json.Unmarshal(s.State, &st) != nil {
			continue // it has ended
		}
		one := newStep(j, s.N, st)
		j.numbers[s.N] = &numbered{stage: running, step: one}
		if st.Key != "" {
			j.keys[st.Key] = s.N
		}
		if !st.Overlap {
			j.numbers[s.N].shares = st.Shares
		}
		j.m.runs.Go(func() { j.goOn(one) })
	}
}

// Running reports whether steps of a worker's job run.
func (m *Manager) Running(id container.ID) bool {
	m.mu.Lock()
	j := m.jobs[id]
	m.mu.Unlock()
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.steps()) > 0
}

// Recover goes on with the steps of a worker that runs here: the last daemon may have started some.
func (m *Manager) Recover(id container.ID) {
	if e, ok := m.Journal.Entry(id.String()); ok && len(e.Steps) > 0 {
		_, _ = m.find(id) // a worker that is not known yet is looked at again
	}
}

// close lets no more steps of a worker start, and refuses the waiting requests. It returns nil if
// the worker never had steps.
func (m *Manager) close(id container.ID) *job {
	m.mu.Lock()
	j := m.jobs[id]
	m.mu.Unlock()
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, w := range j.waiting {
		close(w.granted)
	}
	j.waiting = nil
	return j
}

// End tells the steps of an ended worker that their job is over: by a signal ("": none) and by a
// message to their clients. They may take as long as within; Finish kills them afterwards. Steps go
// on although their clients ended with the worker.
func (m *Manager) End(ctx context.Context, id container.ID, signal string, within time.Duration) {
	j := m.close(id)
	if j == nil {
		return
	}
	o := order{last: true, within: within}
	if signal != "" {
		o.signals = []string{"SIGCONT", signal} // a stopped process would not act on the signal
	}
	ctx, cancel := context.WithTimeout(ctx, max(0, within))
	defer cancel()
	var all sync.WaitGroup
	j.mu.Lock()
	for _, s := range j.steps() {
		all.Go(func() { s.ask(ctx, o) })
	}
	j.mu.Unlock()
	all.Wait()
}

// Finish kills the steps of an ended worker. It returns when their rows are written, or when ctx
// ends.
func (m *Manager) Finish(ctx context.Context, id container.ID) {
	j := m.close(id)
	if j == nil {
		return
	}
	for { // the end of each step wakes the loop
		j.mu.Lock()
		changed, left := j.changed, j.steps()
		for _, s := range left {
			go s.ask(ctx, order{last: true})
		}
		j.mu.Unlock()
		if len(left) == 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	m.mu.Lock()
	delete(m.jobs, id)
	m.mu.Unlock()
}

// ask hands an order to a step, unless the step is over.
func (s *step) ask(ctx context.Context, o order) {
	select {
	case s.orders <- o:
	case <-s.over:
	case <-ctx.Done():
	}
}
