package sim

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// Settings of elastic jobs, in seconds; traces do not have them. A job keeps a size for keepsSize.
// Capacity must be free for growAfter before a job grows into it. They are as short as possible,
// because policies have reasons of their own to leave capacity idle.
const (
	keepsSize = 60
	growAfter = 1
)

// resizable reports whether the policy of the setup may resize a job. Trial-and-error jobs are
// never resized.
func (e *engine) resizable(j *trace.Job) bool {
	return e.setup.Policy.row.elastic && !e.state.Present().Config().Policy.Rigid && j.Elastic() && j.Class != jobspec.TE
}

// makeElastic gives a group the range of workers of its job.
func makeElastic(g *jobspec.Group, j *trace.Job) {
	g.Count = 0
	g.Elastic = &jobspec.Elastic{
		Min: j.MinWorkers, Max: j.MaxWorkers, MultipleOf: 1, Step: 1, Resize: jobspec.ResizeRestart, Cooldown: keepsSize,
		GrowAfter: growAfter,
	}
	if j.PerNode == 0 {
		g.MaxWorkersPerNode = j.MaxWorkers
	}
}

// movable reports whether a job may move for its own sake, so that its rate is of use. Gangs may
// that save their state.
func (e *engine) movable(j *trace.Job) bool {
	return j.Workers > 1 && j.Saves != trace.SavesNone && j.Class != jobspec.TE && e.state.Present().Config().Migrates()
}

// startResize gives a job notice that it will continue with other workers, or elsewhere. The
// capacity of those that join is held from now on.
func (e *engine) startResize(job model.JobID, join int) {
	i := e.runOf(job)
	r := &e.runs[i]
	if join > 0 {
		r.joined = r.job.Demand(join).Minus(r.job.Demand(0))
		e.totals.addHeld(r.joined)
	}
	e.resized = append(e.resized, i)
	e.notify(i, e.state.Present().Job(job).Live().Stop.Cause)
}

// cancelResize frees the capacity of additional workers of a job that is started again or stopped
// for another cause.
func (e *engine) cancelResize(r *run) {
	if r.joined == (model.Vector{}) {
		return
	}
	e.totals.lost += int64(e.now-r.stopped) * r.joined.GPUs
	e.totals.addHeld(model.Vector{}.Minus(r.joined))
	r.joined = model.Vector{}
}

// startResized starts the attempts of resized jobs in the state, once the old attempts have exited.
func (e *engine) startResized() error {
	waiting := e.resized[:0]
	for _, i := range e.resized {
		r := &e.runs[i]
		a := e.state.Present().Job(e.runs[i].id).Live()
		switch {
		case r.live:
			waiting = append(waiting, i)
		case a != nil && a.N > int(r.attempt):
			e.startAttempt(i, placesOf(a))
		}
	}
	e.resized = waiting
	return e.sendReports()
}

// placesOf returns where the workers of an attempt are.
func placesOf(a *model.Attempt) []model.Place {
	places := make([]model.Place, len(a.Workers))
	for k := range a.Workers {
		places[k] = a.Workers[k].Place
	}
	return places
}

// reportRate reports the speed of a job, once in an attempt, as the job itself would.
func (e *engine) reportRate(i int32) {
	r := &e.runs[i]
	if r.stopped == 0 {
		w := r.workers[0]
		e.addReport(w.node, model.WorkerReport{Job: e.runs[i].id, Attempt: int(r.attempt), Worker: int(w.worker),
			State: model.WorkerRunning, Rate: e.stepsOf(r)})
	}
}

// stepsOf returns how many steps a job makes in 1,000 s, as its program would report. If the length
// of a step is unknown, a step is a millionth of the job's work in that time with its requested
// workers.
func (e *engine) stepsOf(r *run) int64 {
	if t, known := r.job.Scaling.(*trace.Training); known {
		const ns = 1_000_000_000_000
		return max(1, ns/max(1, t.StepTime(e.layout(r))))
	}
	return r.rate
}
