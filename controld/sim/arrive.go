package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

// feed delivers the jobs of a simulation.
type feed interface {
	// next returns when the next job arrives. It is false if no job will arrive, or none before
	// something else has happened.
	next(*engine) (model.Instant, bool)
	// arrive submits the jobs that arrive now.
	arrive(*engine) error
	// count returns the number of all jobs, 0 if it is not known.
	count() int
}

// arrivals is a feed of jobs with submit times, in their order.
type arrivals struct {
	jobs []*trace.Job
	at   int
}

func (l *arrivals) count() int { return len(l.jobs) }

func (l *arrivals) next(e *engine) (model.Instant, bool) {
	if l.at == len(l.jobs) {
		return 0, false
	}
	return e.instant(l.jobs[l.at].Submit), true
}

func (l *arrivals) arrive(e *engine) error {
	from := l.at
	for l.at < len(l.jobs) && e.instant(l.jobs[l.at].Submit) <= e.now {
		l.at++
	}
	return e.submit(l.jobs[from:l.at])
}

// closedLoop is a feed that submits the next job whenever the demand of pending and running jobs is
// below a load.
type closedLoop struct {
	source   synth.Source
	fits     *fitting
	load     int64 // thousandths
	capacity model.Vector
	demand   model.Vector // of the jobs that have arrived and not ended
	trace    *trace.Trace // of the jobs with the submit times that were set
	seen     int          // finished jobs whose demand has been subtracted
	over     bool
}

func (l *closedLoop) count() int { return 0 }

func (l *closedLoop) next(e *engine) (model.Instant, bool) {
	if len(e.runs) == 0 && !l.over {
		return e.now, true
	}
	return 0, false
}

func (l *closedLoop) arrive(e *engine) error {
	if e.tick(e.now) != e.now {
		return nil // the paper's jobs arrive at ticks
	}
	for _, v := range e.totals.gone[l.seen:] {
		l.demand = l.demand.Minus(v)
	}
	l.seen = len(e.totals.gone)
	var jobs []*trace.Job
	for !l.over && synth.Load(l.demand, l.capacity) < l.load {
		job, ok := l.source.Next()
		if !ok {
			l.over = true
			break
		}
		job.Submit = e.ms(e.now)
		if l.fits.reasonAgainst(&job) != "" { // it stays in the trace, so that a replay reports it
			l.trace.Jobs = append(l.trace.Jobs, job)
			continue
		}
		l.demand = l.demand.Plus(job.Demand(job.Workers))
		l.trace.Jobs = append(l.trace.Jobs, job)
		jobs = append(jobs, &job)
	}
	return e.submit(jobs)
}

// submit adds jobs to the state. Consecutive jobs of one owner share a command, and those of a
// search are one array.
func (e *engine) submit(jobs []*trace.Job) error {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && (n < maxPerSubmit || jobs[0].Search != nil) && jobs[n].User == jobs[0].User &&
			jobs[n].Search == jobs[0].Search {
			n++
		}
		submit := e.submitAll
		if jobs[0].Search != nil {
			submit = e.submitSearch
		}
		if err := submit(jobs[:n]); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

func (e *engine) submitAll(jobs []*trace.Job) error {
	if e.setup.Limits != nil && len(jobs) > 1 { // each may be refused for the sake of those before it
		for i := range jobs {
			if err := e.submitAll(jobs[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	specs := make([]*jobspec.Job, len(jobs))
	first := len(e.runs)
	for k, j := range jobs {
		r := e.newRun(j)
		specs[k] = e.spec(&r)
		if admitted, err := e.admits(j, specs[k]); !admitted {
			return err
		}
		e.enter(r)
	}
	ids, err := e.submitSpecs(jobs[0], specs)
	for k, id := range ids {
		e.identify(int32(first+k), id)
	}
	return err
}

// newRun returns a job that arrives now.
func (e *engine) newRun(j *trace.Job) run {
	return run{job: j, submitted: e.instant(j.Submit), alone: j.Alone(), left: j.Work * trace.FullRate, queued: e.now}
}

// enter counts a job that arrives.
func (e *engine) enter(r run) {
	e.totals.addArrival(e, &r)
	e.runs = append(e.runs, r)
	e.pending++
}

// submitSpecs submits specifications for the owner of a job that has just been entered.
func (e *engine) submitSpecs(j *trace.Job, specs []*jobspec.Job) ([]model.JobID, error) {
	uid := uint32(1000 + e.runs[len(e.runs)-1].user)
	owner := model.Identity{UID: uid, GID: uid, User: j.User}
	result, err := e.apply(fsm.SubmitJobs{Owner: owner, Jobs: specs, Unlimited: true})
	if err != nil {
		return nil, fmt.Errorf("submit job %s: %w", j.ID, err)
	}
	e.changed = true
	return result.([]model.JobID), nil
}

// identify notes the id that a job has been given.
func (e *engine) identify(i int32, id model.JobID) {
	e.runs[i].id = id
	for int(id) > len(e.byID) {
		e.byID = append(e.byID, -1)
	}
	e.byID[id-1] = i
}

// runOf returns the run of a job.
func (e *engine) runOf(id model.JobID) int32 { return e.byID[id-1] }

// spec returns a job as its user would have submitted it.
func (e *engine) spec(r *run) *jobspec.Job {
	j := r.job
	spec := &jobspec.Job{
		Name: cmp.Or(j.Name, "job"), Class: j.Class, Account: j.Account, Priority: &j.Priority,
		Groups: group("workers", j.Workers, j.PerNode, j.Request, j.Models),
	}
	if e.resizable(j) {
		makeElastic(&spec.Groups[0], j)
	}
	r.declare = defaultGrace
	if j.Grace != trace.Unknown {
		r.declare = max(1000, (j.Grace+999)/1000*1000) // a specification has whole seconds, and 0 stands for the default
		spec.Preemption = e.preemption(jobspec.Seconds(r.declare / 1000))
	}
	if j.Pauses && j.Class != jobspec.TE && !e.resizable(j) { // others cannot be suspended
		spec.Preemption = e.pausing(spec.Preemption)
	}
	if j.Saves != trace.SavesNone {
		spec.Checkpoint = &jobspec.Checkpoint{Interval: jobspec.Seconds(j.Every / 1000)}
	}
	if j.Servers > 0 {
		spec.Groups = append(spec.Groups, group("servers", j.Servers, 0, j.Server, nil)...)
		spec.GangScope = jobspec.ScopeJob
	}
	limit, guess := e.setup.Policy.limit(j, r.alone)
	spec.TimeLimit = jobspec.Seconds(limit / 1000)
	if guess {
		r.limit = limit
	}
	return spec
}

// defaultGrace is the grace period of the state if a job asks for none, in ms.
const defaultGrace = 30_000

// preemption returns a job's settings for preemption. Jobs with the same grace period share them.
func (e *engine) preemption(grace jobspec.Seconds) *jobspec.Preemption {
	p := e.graces[grace]
	if p == nil {
		p = &jobspec.Preemption{GracePeriod: grace}
		e.graces[grace] = p
	}
	return p
}

// pausing returns settings for preemption of a job that can be suspended.
func (e *engine) pausing(p *jobspec.Preemption) *jobspec.Preemption {
	next := jobspec.Preemption{}
	if p != nil {
		next = *p
	}
	next.Mode = jobspec.PreemptSuspend
	return &next
}

// group returns one group of one task.
func group(name string, count, perNode int, v model.Vector, models []string) []jobspec.Group {
	r := jobspec.Resources{Cores: int(v.Cores), Memory: v.Memory, GPUs: int((v.GPUs + wholeGPU - 1) / wholeGPU)}
	if part := v.GPUs % wholeGPU; part > 0 {
		r.GPU = &jobspec.GPU{Share: int(part)} // no job file may ask for a part, because nodes could not confine it
	}
	var room struct { // one piece of memory
		groups [1]jobspec.Group
		tasks  [1]jobspec.Task
	}
	room.tasks[0].Resources = r
	g := &room.groups[0]
	*g = jobspec.Group{Name: name, Count: count, MaxWorkersPerNode: perNode, Tasks: room.tasks[:]}
	if perNode == 0 && count > 1 {
		g.MaxWorkersPerNode = count
	}
	if len(models) > 0 && v.GPUs > 0 {
		g.Constraints = []jobspec.Constraint{{Attribute: "node.gpu.model", Operator: "in", Values: models}}
	}
	return room.groups[:]
}

// wholeGPU is one GPU in the unit of vectors.
const wholeGPU = model.WholeGPU

// fitting says which jobs no node of a cluster can ever run.
type fitting struct {
	nodes  []model.Node
	known  map[demand]string
	models []string // of each node
}

// demand is the part of a job that decides whether it fits.
type demand struct {
	worker, server   model.Vector
	workers, servers int
	perNode          int
	models           string
}

func newFitting(nodes []model.Node) *fitting {
	f := &fitting{nodes: nodes, known: map[demand]string{}, models: make([]string, len(nodes))}
	for i := range nodes {
		if len(nodes[i].GPUs) > 0 {
			f.models[i] = nodes[i].GPUs[0].Model
		}
	}
	return f
}

// reasonAgainst returns why no set of nodes can hold a job, "" if one can.
func (f *fitting) reasonAgainst(j *trace.Job) string {
	d := demand{j.Request, j.Server, j.Workers, j.Servers, j.PerNode, strings.Join(j.Models, "|")}
	if why, known := f.known[d]; known {
		return why
	}
	why := f.judge(j)
	f.known[d] = why
	return why
}

func (f *fitting) judge(j *trace.Job) string {
	per := cmp.Or(j.PerNode, j.Workers)
	worker := j.Request
	room, matching := 0, 0
	for i := range f.nodes {
		sameModel := func(m string) bool { return strings.EqualFold(m, f.models[i]) }
		if len(j.Models) > 0 && worker.GPUs > 0 && !slices.ContainsFunc(j.Models, sameModel) {
			continue
		}
		matching++
		if room += min(per, workersOn(worker, &f.nodes[i])); room >= j.Workers {
			return f.judgeServers(j)
		}
	}
	switch {
	case matching == 0:
		return "no node has a GPU of model " + strings.Join(j.Models, " or ")
	case j.Workers == 1:
		return "no node has " + words(worker)
	}
	apart := ""
	if j.PerNode > 0 {
		apart = fmt.Sprintf(", at most %d on a node", j.PerNode)
	}
	return fmt.Sprintf("%d workers of %s each%s: the nodes hold %d of them", j.Workers, words(worker), apart, room)
}

func (f *fitting) judgeServers(j *trace.Job) string {
	if j.Servers == 0 {
		return ""
	}
	room, total := 0, model.Vector{}
	for i := range f.nodes {
		room += workersOn(j.Server, &f.nodes[i])
		total = total.Plus(capacity(&f.nodes[i]))
	}
	if room < j.Servers {
		return fmt.Sprintf("%s of %s each: the nodes hold %d of them", trace.Counted(j.Servers, "server", "servers"),
			words(j.Server), room)
	}
	if need := j.Demand(j.Workers); need.Cores > total.Cores || need.Memory > total.Memory || need.GPUs > total.GPUs {
		return fmt.Sprintf("%s of %s each and %s of %s: the nodes hold either, not both",
			trace.Counted(j.Servers, "server", "servers"), words(j.Server), trace.Counted(j.Workers, "worker",
				"workers"), words(j.Request))
	}
	return ""
}

// workersOn returns how many workers an empty node holds.
func workersOn(v model.Vector, n *model.Node) int {
	have := capacity(n)
	fit := int64(trace.MaxWorkers)
	for _, p := range [][2]int64{{v.Cores, have.Cores}, {int64(v.Memory), int64(have.Memory)}, {v.GPUs, have.GPUs}} {
		if p[0] > 0 {
			fit = min(fit, p[1]/p[0])
		}
	}
	if part := v.GPUs % wholeGPU; part > 0 { // a part lies on one GPU only
		fit = min(fit, have.GPUs/wholeGPU*(wholeGPU/part))
	}
	return int(fit)
}

func capacity(n *model.Node) model.Vector { return trace.Capacity([]model.Node{*n}) }

func words(v model.Vector) string {
	text := fmt.Sprintf("%d cores, %s", v.Cores, v.Memory)
	if v.GPUs > 0 {
		text += fmt.Sprintf(", %g GPUs", float64(v.GPUs)/1000)
	}
	return text
}
