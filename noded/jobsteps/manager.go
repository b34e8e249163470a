// Package jobsteps runs the steps of jobs. A step is a program inside the allocation of a job, as
// srun starts it. The node of the job's first worker has the [Manager]: it numbers steps, and gives
// them nodes, cores and GPUs. Every node of a step has a [Node], which starts its part: a container
// beside the job's worker there.
package jobsteps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
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
	id    container.ID // of its first worker
	first int          // its number in the attempt
	alloc []Allocation // of the groups that start together

	ending sync.Mutex // held while a row is written, so that rows are reported in order

	mu      sync.Mutex
	next    int             // number of the next step
	rows    int             // rows written so far
	closed  bool            // no more steps start
	steps   map[int]*step   // running, by number
	held    map[int][]Share // cores and GPUs that steps do not share with others, by number
	waiting []*waiter       // in order of arrival
	keys    map[string]int  // numbers of steps by the keys of their requests
	begins  map[int]bool    // numbers of granted steps that are not in steps yet
	changed chan struct{}   // closed when a step has ended
}

// waiter is a request that waits for room.
type waiter struct {
	req     *api.StepRequest
	name    string
	granted chan grant // gets one value, or is closed when the job ends, or when the request is sent again
}

// grant is the answer to a request: the step's number, and its shares, held from then on.
type grant struct {
	n      int
	shares []Share
	parts  []int // how many of the shares each part of the step has
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
	j := &job{m: m, id: id, first: id.Worker, alloc: allocations(a), steps: map[int]*step{}, held: map[int][]Share{},
		keys: map[string]int{}, begins: map[int]bool{}, changed: make(chan struct{})}
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
		j.steps[s.N] = one
		if st.Key != "" {
			j.keys[st.Key] = s.N
		}
		if !st.Overlap {
			j.held[s.N] = st.Shares
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
	return len(j.steps) > 0
}

// Recover goes on with the steps of a worker that runs here: the last daemon may have started some.
func (m *Manager) Recover(id container.ID) {
	if e, ok := m.Journal.Entry(id.String()); ok && len(e.Steps) > 0 {
		_, _ = m.find(id) // a worker that is not known yet is looked at again
	}
}

// goOn goes on with a step of an earlier daemon. A step that had not begun on all its nodes is
// killed: its command never got the step's number and cannot attach to it.
func (j *job) goOn(s *step) {
	for _, p := range s.parts {
		if why := p.unbegun(j.m.ctx); why != "" {
			s.kill(why)
			s.phase = s.phase.after(neverBegan)
			break
		}
	}
	if j.m.ctx.Err() == nil {
		j.follow(s)
	}
}

// unbegun asks a part's node until it answers, and returns why the part's tasks do not run; "" if
// they do. If the node does not answer in time it returns "" too, because the part's stream finds
// that out.
func (p *part) unbegun(ctx context.Context) string {
	deadline := time.Now().Add(nodePatience)
	for delay := retryMin; ; delay = min(2*delay, retryMax) {
		ask, cancel := context.WithTimeout(ctx, askTime)
		begun, err := p.node.Begun(ask, p.id)
		cancel()
		switch {
		case err == nil && begun:
			return ""
		case err == nil, errors.Is(err, container.ErrUnknown):
			return "the node daemon of its job was restarted while it began"
		case ctx.Err() != nil:
			return ""
		case time.Now().After(deadline):
			return "" // its stream says that the node is lost
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ""
		}
	}
}

// Bounds of requests. They keep sums and products of requests from overflowing.
const (
	countMost  = 1 << 20
	memoryMost = jobspec.Bytes(1) << 40 << 10 // 1 PiB
	timeMost   = jobspec.Seconds(1) << 31     // 68 years
	keyMost    = 64                           // bytes
)

// check refuses a request with values that are impossible whatever the job has.
func check(req *api.StepRequest) error {
	for _, n := range []int{req.Nodes, req.Relative, req.Tasks, req.TasksPerNode, req.CoresPerTask, req.GPUsPerNode,
		req.GPUsPerTask, req.CoresPerGPU, int(req.Memory), int(req.MemoryPerCore), req.GPUs + 1, int(req.Wait),
		int(req.TimeLimit)} {
		if n < 0 {
			return errors.New("a step has no negative numbers")
		}
	}
	if n := max(req.Nodes, req.Relative, req.CoresPerTask, req.GPUs, req.GPUsPerNode, req.GPUsPerTask,
		req.CoresPerGPU); n > countMost {
		return fmt.Errorf("a step has at most %d nodes, cores or GPUs", countMost)
	}
	if n := max(req.Memory, req.MemoryPerCore); n > memoryMost {
		return fmt.Errorf("a step has at most %d bytes of memory", int64(memoryMost))
	}
	if n := max(req.Wait, req.TimeLimit); n > timeMost {
		return fmt.Errorf("the times of a step are at most %d seconds", int64(timeMost))
	}
	if len(req.Key) > keyMost {
		return fmt.Errorf("the key of a request for a step has at most %d bytes", keyMost)
	}
	if err := checkParts(req); err != nil {
		return err
	}
	if len(req.Programs) == 0 {
		return errors.New("a step needs a program")
	}
	for _, p := range req.Programs {
		if len(p.Argv) == 0 || p.Argv[0] == "" {
			return errors.New("a program of a step needs a name")
		}
	}
	if max(req.Tasks, req.TasksPerNode) > jobspec.MaxProcesses {
		return fmt.Errorf("a step has at most %d tasks", jobspec.MaxProcesses)
	}
	for _, v := range req.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return fmt.Errorf("variable %q is not NAME=VALUE", v)
		}
	}
	return nil
}

// checkParts refuses further parts that repeat a group, or set what holds for the whole step.
func checkParts(req *api.StepRequest) error {
	groups := map[int]bool{req.Group: true}
	for i := range req.More {
		r := &req.More[i]
		if r.Name != "" || len(r.More) > 0 || r.Overlap || r.NoWait || r.Terminal != nil || r.Stdin != "" || r.KillOnBad ||
			r.Key != "" || r.Acks || r.EndsJob || r.Wait != 0 || r.TimeLimit != 0 {
			return fmt.Errorf("the part of a step in group %d says what holds for all of the step", r.Group)
		}
		if groups[r.Group] {
			return fmt.Errorf("a step has one part in a group, and two in group %d", r.Group)
		}
		groups[r.Group] = true
		if err := check(r); err != nil {
			return fmt.Errorf("in group %d: %w", r.Group, err)
		}
	}
	return nil
}

// programsCover refuses tasks without a program.
func programsCover(req *api.StepRequest, tasks int) error {
	named := map[int]bool{}
	for _, p := range req.Programs {
		if len(p.Tasks) == 0 {
			return nil
		}
		for _, n := range p.Tasks {
			named[n] = true
		}
	}
	for n := range tasks {
		if !named[n] {
			return fmt.Errorf("task %d has no program", n)
		}
	}
	return nil
}

// nameOf returns the name of a step: as requested, or the first program's.
func nameOf(req *api.StepRequest) string {
	name := req.Name
	if name == "" {
		name = filepath.Base(req.Programs[0].Argv[0])
	}
	return cut(name)
}

// cut shortens a text to the length that a row may have, without a broken character at its end.
func cut(text string) string {
	if len(text) > model.MaxStepText {
		text = strings.ToValidUTF8(text[:model.MaxStepText], "")
	}
	return text
}

// enter grants a request at once, or queues it if its shares are busy.
func (j *job) enter(req *api.StepRequest) (grant, *waiter, error) {
	w, err := j.m.Local.Worker(j.id)
	if err == nil {
		err = w.Refuse
	}
	if err != nil {
		return grant{}, nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return grant{}, nil, errEnds
	}
	if len(j.steps)+len(j.waiting) >= stepsMost {
		return grant{}, nil, &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeLimit,
			Detail: fmt.Sprintf("job %d has %d steps that run or wait, as many as a job may have at a time: wait until one ends",
				j.id.Job, stepsMost)}
	}
	shares, parts, err := chooseAll(req, j.alloc, j.allHeld())
	// A client that lost its connection sends its request again, with the same key. The new request
	// takes the place of the old one in the queue.
	at := slices.IndexFunc(j.waiting, func(w *waiter) bool { return req.Key != "" && w.req.Key == req.Key })
	if at >= 0 {
		close(j.waiting[at].granted)
		j.waiting = slices.Delete(j.waiting, at, at+1)
	} else {
		at = len(j.waiting)
	}
	if errors.Is(err, Busy) && !req.NoWait {
		w := &waiter{req: req, name: nameOf(req), granted: make(chan grant, 1)}
		j.waiting = slices.Insert(j.waiting, at, w)
		return grant{}, w, nil
	}
	if err != nil {
		return grant{}, nil, err
	}
	return j.grant(req, shares, parts), nil, nil
}

// stepsMost is how many steps of a job may run and wait at the same time.
const stepsMost = 1024

var errEnds = errors.New("Job has finished")

// grant numbers a step and holds its shares until it ends. The caller has the mutex.
func (j *job) grant(req *api.StepRequest, shares []Share, parts []int) grant {
	g := grant{j.next, shares, parts}
	j.next++
	if !req.Overlap {
		j.held[g.n] = shares
	}
	j.begins[g.n] = true
	if req.Key != "" {
		j.keys[req.Key] = g.n
	}
	if len(j.keys) > keysMost { // forget old keys: their clients have long got an answer
		maps.DeleteFunc(j.keys, func(_ string, n int) bool { return n <= g.n-keysMost/2 && j.steps[n] == nil })
	}
	return g
}

// keysMost is the number of remembered keys of requests.
const keysMost = 8 * stepsMost

// leave takes back a waiting request. It may have been granted in the same moment: then its shares
// go to the requests behind it.
func (j *job) leave(w *waiter) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = slices.DeleteFunc(j.waiting, func(o *waiter) bool { return o == w })
	select {
	case g, ok := <-w.granted:
		if ok {
			delete(j.held, g.n)
			delete(j.begins, g.n)
			maps.DeleteFunc(j.keys, func(_ string, n int) bool { return n == g.n })
			j.serveWaiting()
		}
	default:
	}
}

func tasksOf(shares []Share) int {
	n := 0
	for _, s := range shares {
		n += len(s.Tasks)
	}
	return n
}

func (j *job) allHeld() []Share {
	var all []Share
	for _, h := range j.held {
		all = append(all, h...)
	}
	return all
}

// freed gives the shares of a step back and serves the waiting requests.
func (j *job) freed(s *step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.held, s.n)
	j.serveWaiting()
}

// serveWaiting grants every waiting request that fits now, in order. A small request may overtake a
// large one. The caller has the mutex.
func (j *job) serveWaiting() {
	j.waiting = slices.DeleteFunc(j.waiting, func(w *waiter) bool {
		shares, parts, err := chooseAll(w.req, j.alloc, j.allHeld())
		if err != nil {
			return false
		}
		w.granted <- j.grant(w.req, shares, parts)
		return true
	})
}

// create starts a granted step and follows it until it has ended. The order matters for a crash of
// the daemon: the step is in the journal before any node starts a part, so the next daemon finds
// it.
func (j *job) create(req *api.StepRequest, g grant, c *client) {
	n := g.n
	st := stepState{Name: nameOf(req), Shares: g.shares, Began: clock.Wall().UnixMilli(), Cyclic: req.Cyclic,
		Overlap: req.Overlap, Stdin: req.Stdin, KillOnBad: req.KillOnBad, Wait: req.Wait, TimeLimit: req.TimeLimit,
		Key: req.Key, EndsJob: req.EndsJob}
	if len(g.parts) > 1 {
		st.Parts = g.parts
	}
	s := newStep(j, n, st)
	s.acks = req.Acks
	// From granted to running in one critical section: close either sees the step, or is seen here.
	j.mu.Lock()
	delete(j.begins, n)
	if j.closed {
		delete(j.held, n)
		j.mu.Unlock()
		c.refuse(errEnds)
		return
	}
	j.steps[n] = s
	j.mu.Unlock()
	state, err := json.Marshal(st)
	if err == nil {
		err = j.m.Journal.Append(journal.Record{Op: journal.StepBegun, ID: j.id.String(),
			Step: &journal.Step{N: n, State: state}})
	}
	s.client, s.phase, s.fresh = c, s.phase.after(clientCame), true
	var failed []*part
	if err == nil {
		failed, err = j.startParts(s, req)
	}
	f, bad := stream.JSON(stream.Begun, stream.AllTasks, s.begun())
	if err == nil {
		err = bad
	}
	if err != nil {
		// Some parts may run: they are killed. Parts that certainly do not run count as ended, the
		// others as running until their streams say otherwise.
		s.kill(err.Error())
		s.worst = api.StepTaskExit{Code: 1}
		s.decided = true
		for _, p := range failed {
			p.lost = true
			s.partEnded(p, api.StepEnd{})
		}
	} else {
		s.pending = append(s.pending, f)
	}
	j.follow(s)
}

// begins reports whether a node does not know yet that its worker runs: the first node of a job may
// learn of the start before the others.
func begins(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeNoLeader
}

// requests returns, for each part, the request of its group (a heterogeneous step has one for
// each). Tasks that programs name by number are renumbered for the whole step.
func (s *step) requests(req *api.StepRequest) []*api.StepRequest {
	var list []*api.StepRequest
	parts, tasks := partsOf(req), 0
	for i := range parts {
		nodes := len(s.Shares)
		if len(s.Parts) > 0 {
			nodes = s.Parts[i]
		}
		parts[i].Programs = behind(parts[i].Programs, tasks)
		for range nodes {
			tasks += len(s.Shares[len(list)].Tasks)
			list = append(list, &parts[i])
		}
	}
	return list
}

// behind returns programs whose task numbers are raised by the number of tasks before them.
func behind(programs []api.StepProgram, tasks int) []api.StepProgram {
	out := slices.Clone(programs)
	for i := range out {
		out[i].Tasks = slices.Clone(out[i].Tasks)
		for k := range out[i].Tasks {
			out[i].Tasks[k] += tasks
		}
	}
	return out
}

// groupsOf lists the groups of a step.
func groupsOf(req *api.StepRequest) []int {
	list := []int{req.Group}
	for i := range req.More {
		list = append(list, req.More[i].Group)
	}
	return list
}

// startParts starts all parts at once, and waits for all answers. It returns the parts that
// certainly do not run; after an uncertain error a part may run.
func (j *job) startParts(s *step, req *api.StepRequest) ([]*part, error) {
	b := s.begun()
	failed := make([]*part, len(s.parts))
	errs := make([]error, len(s.parts))
	var all sync.WaitGroup
	requests := s.requests(req)
	for i, p := range s.parts {
		share, r := s.Shares[i], requests[i]
		one := &Part{Programs: r.Programs, Env: r.Env, Workdir: r.Workdir, Nodes: b.Nodes, Counts: b.Tasks, Node: i,
			Share: share, CoresPerTask: max(1, len(share.Cores)/max(1, len(share.Tasks))), Exact: r.Exact,
			GPUsPerTask: r.GPUsPerTask, Cyclic: r.Cyclic, Stdin: p.input}
		if len(s.Parts) > 0 {
			one.Groups = groupsOf(req)
		}
		if r.CoresPerTask > 0 {
			one.CoresPerTask = r.CoresPerTask
		}
		if s.hasTask(share, "0") {
			one.Terminal = req.Terminal
		}
		all.Go(func() { // repeated while the node waits for news of its worker
			ctx, cancel := context.WithTimeout(j.m.ctx, askTime)
			defer cancel()
			err := p.node.Start(ctx, p.id, one)
			for delay := retryMin; begins(err); delay = min(2*delay, retryMax) {
				select {
				case <-time.After(delay):
					err = p.node.Start(ctx, p.id, one)
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
			}
			if err != nil {
				errs[i] = fmt.Errorf("node %s: %w", p.name, err)
				if ctx.Err() == nil && !errors.Is(err, errUncertain) {
					failed[i] = p
				}
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(failed, func(p *part) bool { return p == nil }), errors.Join(errs...)
}

// follow runs a step until it has ended, and writes its row. The parts are removed first, because
// only then is their use of resources complete. The row comes before the step leaves the list, so
// Finish waits for it.
func (j *job) follow(s *step) {
	s.run(j.m.ctx)
	if j.m.ctx.Err() != nil {
		return // the next daemon goes on with it
	}
	usage := j.removeParts(s)
	j.freed(s)
	j.record(s, usage)
	j.mu.Lock()
	delete(j.steps, s.n)
	close(j.changed)
	j.changed = make(chan struct{})
	idle := len(j.steps) == 0
	j.mu.Unlock()
	if idle && j.m.Idle != nil {
		j.m.Idle(j.id)
	}
	if s.EndsJob {
		j.endLater()
	}
}

// jobPatience is how long a job outlives the one step that it exists for, if srun does not end the
// job. It is longer than srun tries to.
const jobPatience = time.Minute

// endLater ends a job that its client has not ended in time.
func (j *job) endLater() {
	j.m.runs.Go(func() {
		select {
		case <-time.After(jobPatience):
			j.m.EndJob(j.m.ctx, j.id)
		case <-j.m.ctx.Done():
		}
	})
}

// removeParts removes the parts from their nodes, and returns the resources that the step's tasks
// used; nil if that is unknown. A process that was killed for memory becomes the step's outcome.
func (j *job) removeParts(s *step) *model.Usage {
	ends := make([]Ended, len(s.parts))
	var all sync.WaitGroup
	for i, p := range s.parts {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(j.m.ctx, askTime)
			defer cancel()
			var err error
			if ends[i], err = p.node.Remove(ctx, p.id); err != nil && !errors.Is(err, container.ErrUnknown) {
				s.log.Warn("cannot remove what is left of a step; its node does that when the job ends", "node", p.name,
					"err", err)
			}
		})
	}
	all.Wait()
	var sum model.UsageSum
	for i, end := range ends {
		e := end.Exit
		if e == nil {
			continue
		}
		system := max(0, e.SystemMS)
		used := model.Usage{CPUMS: max(0, e.UserMS) + system, SystemMS: system, PeakMemory: jobspec.Bytes(max(0, e.PeakMem))}
		gpus := end.GPUs
		if g := &end.GPU; g.Possible() && gpus > 0 && gpus <= len(s.Shares[i].GPUs) {
			used.GPU, used.PeakGPU, used.GPUMemory, used.PeakGPUMemory = g.GPU, g.PeakGPU, g.GPUMemory, g.PeakGPUMemory
		} else {
			gpus = 0 // the node does not know the use of GPUs, or claims more of them than the step has
		}
		sum.Add(&used, gpus)
		if e.OOM {
			s.worst, s.why = api.StepTaskExit{Signal: model.SignalOOM, OOM: true}, cmp.Or(s.why, e.Killed)
		}
	}
	if sum.Workers == 0 || !sum.Usage.Possible() { // another node sent nonsense; the state would refuse the row
		return nil
	}
	return &sum.Usage
}

// record writes the row of a step to the journal and reports it. ending keeps rows of one job in
// order: the report follows the journal without another row between.
func (j *job) record(s *step, usage *model.Usage) {
	j.ending.Lock()
	defer j.ending.Unlock()
	end := s.end()
	r := model.StepReport{Job: j.jobID(), Attempt: j.id.Attempt, Step: model.Step{
		Row: j.rows + 1, ID: s.n, Name: s.Name, Tasks: tasksOf(s.Shares), Began: model.UnixMS(s.Began),
		ExitCode: end.Code, Signal: end.Signal, OOM: end.OOM, Why: cut(end.Why), Usage: usage,
		Ended: max(model.UnixMS(s.ended), model.UnixMS(s.Began)),
	}}
	var nodes []string
	for _, p := range s.parts {
		if !slices.Contains(nodes, p.name) { // several workers of a job may be on one
			nodes = append(nodes, p.name)
		}
	}
	r.SetNodes(nodes)
	r.Cores, r.GPUs = s.holds()
	kept := &journal.Step{N: s.n, Report: &r}
	if !s.told { // its client may ask again after a restart of this daemon, by the key of its request
		kept.Unread = s.Key
	}
	err := j.m.Journal.Append(journal.Record{Op: journal.StepEnded, ID: j.id.String(), Step: kept})
	if err != nil {
		s.log.Error("cannot write to the journal how a step has ended", "err", err)
		return // the next daemon finds it lost, and says so
	}
	j.rows++
	j.m.Report(r)
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
	for _, s := range j.steps {
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
		changed, left := j.changed, len(j.steps)
		for _, s := range j.steps {
			go s.ask(ctx, order{last: true})
		}
		j.mu.Unlock()
		if left == 0 {
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
