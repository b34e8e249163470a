package sim

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/interference"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// usualNetwork is assumed for jobs whose trace names no network. It uses its GPUs wholly, and
// switching costs it a quarter of a second.
var usualNetwork = interference.Network{Utilisation: 1000, Memory: 1000,
	StepUS: [4]int64{500_000, 250_000, 125_000, 62_500}, SuspendMS: 250, ResumeMS: 250}

// network returns the model of a job's network, or of its application if the table has one of that
// name.
func (e *engine) network(j *trace.Job) *interference.Network {
	name := j.Model
	if name == "" {
		name = j.App
	}
	if n := e.networks.Network(name); n != nil {
		return n
	}
	return &usualNetwork
}

// stepOf returns how long a mini-batch of a job takes on its requested GPUs, in ms. It uses the
// trace or a measured profile, and else the job's network.
func (e *engine) stepOf(j *trace.Job) int64 {
	if j.Steps > 0 {
		return max(1, j.Work/j.Steps)
	}
	return max(1, e.network(j).Step(int(j.Demand(j.Workers).GPUs/wholeGPU))/1000)
}

// feedbackSteps is after how many mini-batches a user sees whether a job learns, as in Gandiva's
// measurements.
const feedbackSteps = 100

// never is after every simulation.
const never = model.Instant(1) << 60

// suspend tells a job to pause. It works until its mini-batch is over, and then takes some time to
// give its GPUs back. A job that ends before does not pause.
func (e *engine) suspend(i int32, cause model.Cause) {
	r := &e.runs[i]
	r.switches++
	e.decide(StepSuspend, i, cause)
	at := max(e.now, r.from)
	step := e.stepOf(r.job) * trace.FullRate
	work, _ := r.done(at)
	at += model.Instant(((r.did+work)/step*step + step - r.did - work + r.rate - 1) / r.rate)
	if at >= r.finish() {
		return
	}
	e.endStretch(r, at)
	marks := e.marks(r)
	e.totals.addLost(r, int64(min(r.from, at)-r.began))
	e.advance(r, at)
	r.from, r.began = never, at
	e.scheduleLearning(i, marks, at)
	e.agenda.push(event{at: at + model.Instant(e.network(r.job).SuspendMS), kind: paused, job: i, attempt: r.attempt,
		stretch: int32(r.switches)})
}

// advance adds the work of a job until an instant.
func (e *engine) advance(r *run, at model.Instant) {
	work, _ := r.done(at)
	r.left -= work
	r.did += work
	r.stretch++
}

// hasPaused frees the room of a job except its memory.
func (e *engine) hasPaused(i int32) {
	r := &e.runs[i]
	if r.stopped != 0 {
		return
	}
	e.totals.addLost(r, int64(e.now-r.began))
	e.totals.story.span(e, r)
	e.totals.addSuspended(e, r)
	if s := e.state.Present().Job(r.id).Live().Switch; s.Cause.Preempts() {
		e.totals.addPreemption(e, r, s.At)
	}
	r.held, r.holds = model.Vector{}, 0
	e.suspended++
	r.assigned -= e.now // as long as it is suspended, its clock stands still
	e.leaveGPU(i)
	e.reportSwitch(i)
}

// resume has a job go on with the GPUs that the state gives it, for itself or beside others.
func (e *engine) resume(i int32, step Step) {
	r := &e.runs[i]
	r.switches++
	r.places = placesOf(e.state.Present().Job(r.id).Live())
	e.decide(step, i, "")
	e.suspended--
	r.holds = e.now
	r.assigned += e.now
	r.held = r.job.Demand(len(r.workers) - r.job.Servers)
	e.totals.addResumed(e, r)
	r.began = e.now
	r.from = e.now + model.Instant(e.network(r.job).ResumeMS)
	e.enterGPU(i, r.places[0].GPUs)
	e.agenda.push(event{at: r.from, kind: goesOn, job: i, attempt: r.attempt, stretch: int32(r.switches)})
}

// withdraw has a job that has not paused in time go on after its mini-batch.
func (e *engine) withdraw(i int32) {
	r := &e.runs[i]
	r.switches++
	e.decide(StepResume, i, "")
	if r.from != never { // it ends before it would pause
		e.reportSwitch(i)
		return
	}
	r.from = max(e.now, r.began)
	e.scheduleEnd(i)
	e.agenda.push(event{at: r.from, kind: goesOn, job: i, attempt: r.attempt, stretch: int32(r.switches)})
}

// reportSwitch has the nodes of a job report that it has done as it was told last.
func (e *engine) reportSwitch(i int32) {
	r := &e.runs[i]
	if r.stopped != 0 {
		return
	}
	for _, w := range r.workers {
		e.addReport(w.node, model.WorkerReport{Job: e.runs[i].id, Attempt: int(r.attempt), Worker: int(w.worker),
			State: model.WorkerRunning, Switch: r.switches})
	}
}

// useful integrates the useful work of the GPUs: the use of each GPU times the speed of its job.
type useful struct {
	from, to model.Instant
	sum      float64 // thousandths of a GPU, ms
	measured bool
	progress float64 // see Sharing.ProgressJain
}

// measureProgress compares the work of jobs at the end of the window. Call it before anything
// changes after that.
func (e *engine) measureProgress() {
	if e.useful.measured {
		return
	}
	e.useful.measured = true
	var done []float64
	for i := range e.runs {
		r := &e.runs[i]
		if r.ended > 0 {
			continue
		}
		work := r.job.Work*trace.FullRate - r.left
		if r.live {
			at := e.useful.to
			if r.stopped > 0 {
				at = min(at, r.stopped)
			}
			more, _ := r.done(at)
			work += more
		}
		done = append(done, float64(work))
	}
	e.useful.progress = jain(done)
}

// endStretch notes the work of a job from its start or resume until an instant.
func (e *engine) endStretch(r *run, at model.Instant) {
	work, _ := r.done(at)
	if r.from >= never || work == 0 {
		return
	}
	if need := r.job.Work*trace.FullRate - feedbackSteps*e.stepOf(r.job)*trace.FullRate; r.feedback == 0 &&
		r.left-work <= max(0, need) {
		r.feedback = r.from + model.Instant(max(0, r.left-max(0, need))/r.rate)
	}
	from, to := max(r.from, e.useful.from), min(r.from+model.Instant(work/r.rate), e.useful.to)
	if to > from {
		speed := float64(r.rate) / float64(trace.FullRate)
		e.useful.sum += float64(to-from) * speed * float64(r.gpus) * float64(e.network(r.job).Utilisation) / 1000
	}
}

// sharingResult returns the part of the result about shared GPUs. It is nil if the trace names no
// networks and no job was suspended.
func (e *engine) sharingResult() *Sharing {
	var feedback []float64
	known := e.totals.suspensions > 0
	for i := range e.runs {
		v := &e.runs[i]
		known = known || v.job.Model != ""
		if v.feedback > 0 {
			feedback = append(feedback, seconds(int64(v.feedback-v.submitted)))
		}
	}
	if !known {
		return nil
	}
	r := &Sharing{FeedbackS: statsOf(feedback), Suspensions: e.totals.suspensions, ProgressJain: e.useful.progress}
	r.Search = e.searched()
	if span := float64(e.useful.to - e.useful.from); span > 0 {
		r.UsefulUtilisation = e.useful.sum / span / float64(trace.Capacity(e.setup.Nodes).GPUs)
	}
	return r
}
