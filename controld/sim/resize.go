package sim

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// What an elastic job of a trace says of itself, as traces do not, in seconds: for how long it keeps a size that it was given, and for how long room
// must have been free before it grows into it. That is as short as it can be: policies have reasons of their own to leave room idle.
const (
	keepsSize = 60
	growAfter = 1
)

// bends reports whether a job may be given another number of workers by the policy of the setup. Trial-and-error jobs never are.
func (e *engine) bends(j *trace.Job) bool {
	return e.setup.Policy.row.elastic && !e.state.Present().Config().Policy.Rigid && j.Elastic() && j.Class != jobspec.TE
}

// stretch makes a group elastic as its job is.
func stretch(g *jobspec.Group, j *trace.Job) {
	g.Count = 0
	g.Elastic = &jobspec.Elastic{
		Min: j.MinWorkers, Max: j.MaxWorkers, MultipleOf: 1, Step: 1, Resize: "restart", Cooldown: keepsSize, GrowAfter: growAfter,
	}
	if j.PerNode == 0 {
		g.MaxWorkersPerNode = j.MaxWorkers
	}
}

// bend gives a job notice that it will go on with other workers. The room of those that join is held from now on.
func (e *engine) bend(c *cluster.ResizeJob) {
	i := int32(c.Job - 1)
	r := &e.runs[i]
	if len(c.Join) > 0 {
		r.joined = minus(r.job.Demand(len(c.Join)), r.job.Demand(0))
		e.books.hold(r.joined)
	}
	e.resized = append(e.resized, i)
	e.notify(i, e.state.Present().Job(c.Job).Live().Stop.Cause)
}

// unbend gives back the room of workers that were to join a job, which begins anew or is stopped for another cause.
func (e *engine) unbend(r *run) {
	if r.joined == (cluster.Vector{}) {
		return
	}
	e.books.lost += int64(e.now-r.stopped) * r.joined.GPUs
	e.books.hold(minus(cluster.Vector{}, r.joined))
	r.joined = cluster.Vector{}
}

// goOn begins the attempts that the state has begun for jobs that were resized, once the old ones have exited.
func (e *engine) goOn() error {
	waiting := e.resized[:0]
	for _, i := range e.resized {
		r := &e.runs[i]
		a := e.state.Present().Job(cluster.JobID(i + 1)).Live()
		switch {
		case r.live:
			waiting = append(waiting, i)
		case a != nil && a.N > int(r.attempt):
			places := make([]cluster.Place, len(a.Workers))
			for k := range a.Workers {
				places[k] = a.Workers[k].Place
			}
			e.begin(i, places)
		}
	}
	e.resized = waiting
	return e.flush()
}

// measure reports how fast a job is, as it would say itself, once in an attempt.
func (e *engine) measure(i int32) {
	r := &e.runs[i]
	if r.stopped == 0 {
		w := r.workers[0]
		e.tell(w.node, cluster.WorkerReport{Job: cluster.JobID(i + 1), Attempt: int(r.attempt), Worker: int(w.worker), State: cluster.WorkerRunning, Rate: e.stepsOf(r)})
	}
}

// stepsOf is how many steps a job makes in 1,000 s, as its program would say. Where it is not known what a step is, it is a millionth of what the
// job does in that time with the workers that it asks for.
func (e *engine) stepsOf(r *run) int64 {
	if t, known := r.job.Scaling.(*trace.Training); known {
		const ns = 1_000_000_000_000
		return max(1, ns/max(1, t.StepTime(e.layout(r))))
	}
	return r.rate
}
