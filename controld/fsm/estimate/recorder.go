package estimate

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Recorder writes what commands see into a [Statistics]. It copies what a view has before it
// changes it.
type Recorder struct {
	Moment
	now *(*Statistics)

	// The epochs of the state at which each part was last copied.
	whole, recent, runtimes, mix, graces uint64
}

// NewRecorder returns one that keeps *now; nil there means that nothing has been seen yet.
func NewRecorder(now **Statistics) Recorder { return Recorder{now: now} }

// own returns the statistics ready to be written.
func (r *Recorder) own() *Statistics {
	if *r.now != nil && r.whole == r.Epoch {
		return *r.now
	}
	next := &Statistics{}
	if *r.now != nil {
		*next = **r.now
	}
	*r.now, r.whole = next, r.Epoch
	return next
}

// Rotation notes that a cycle has looked whose turn it is.
func (r *Recorder) Rotation() { r.own().LastRotation = r.At }

// Submission notes that jobs were submitted.
func (r *Recorder) Submission() { r.own().LastSubmitted = r.At }

// Release notes that an attempt has ended: how long room has been idle is counted from then.
func (r *Recorder) Release() {
	if *r.now == nil || (*r.now).LastEnded != r.At {
		r.own().LastEnded = r.At
	}
}

// ElasticStart notes that an elastic job begins an attempt: as long as none has, none has to be
// looked for.
func (r *Recorder) ElasticStart(j *model.Job) {
	if _, elastic := j.Elastic(); elastic {
		r.own().LastElasticStart = r.At
	}
}

// StopDuration takes in how many ms a displaced attempt took to leave.
func (r *Recorder) StopDuration(queue string, took model.Instant) {
	s := r.own()
	s.StopDurations = cloned(s.StopDurations)
	d := s.StopDurations[queue]
	d.Add(took)
	s.StopDurations[queue] = d
}

// cloned copies a map, and makes one where there is none.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// Arrival takes in a job that was just submitted: what it requests, and how often trial-and-error
// jobs come.
func (r *Recorder) Arrival(j *model.Job) {
	if j.Class == jobspec.TE {
		r.teArrival(j)
	}
	parts := j.Parts
	if len(parts) == 0 {
		parts = []model.Part{{Workers: j.Workers, Request: j.Request}}
	}
	for i := range parts {
		n := int64(parts[i].Workers)
		if j.Children != nil {
			n *= int64(j.Children.Size)
		}
		if worker := parts[i].Request.Active; worker.GPUs > 0 {
			r.ownMix().Add(roundedRequest(worker), min(n, requestsPerJob))
		}
	}
}

func (r *Recorder) teArrival(j *model.Job) {
	a := &r.own().TE
	a.closeMinutes(r.At)
	a.Last = r.At
	for i := range j.Workers {
		want := j.RequestOf(i).Active
		a.Sum += want.GPUs
		want.Cores *= 1000
		a.Worker = a.Worker.MoveTowards(want)
	}
	if r.recent != r.Epoch {
		a.Recent, r.recent = append(make([]model.Vector, 0, RecentKept+RecentPerJob), a.Recent...), r.Epoch
	}
	a.addRequests(j)
}

// ownMix returns the workload mix ready to be written.
func (r *Recorder) ownMix() *WorkloadMix {
	s := r.own()
	if r.mix == r.Epoch && s.Mix != nil {
		return s.Mix
	}
	next := &WorkloadMix{}
	if s.Mix != nil {
		next.Kinds = append(make([]RequestCount, 0, len(s.Mix.Kinds)+1), s.Mix.Kinds...)
	}
	s.Mix, r.mix = next, r.Epoch
	return next
}

// QueueWait takes in whether a job that begins its first attempt has had to wait for it.
func (r *Recorder) QueueWait(j *model.Job) {
	if j.Attempt != 0 {
		return
	}
	seen := int64(0)
	if r.At-j.Eligible > AtOnceWithin {
		seen = WaitsUnit
	}
	w := &r.own().Waits
	if j.Class == jobspec.TE {
		w.TE += (seen - w.TE) / WaitsMemory
	} else {
		w.BE += (seen - w.BE) / WaitsMemory
	}
}

// Runtime takes in for how long a best-effort job has run that is over. An end that came from a
// node says nothing about the job.
func (r *Recorder) Runtime(j *model.Job) {
	if j.Class == jobspec.TE || j.Attempt == 0 || j.Children != nil || j.State == model.NodeFailed ||
		j.State == model.BootFailed {
		return
	}
	history := r.ownRuntimes()
	kinds, first := KindsOfJob(j)
	ran, near := j.RuntimeOf(j.Attained()), 0
	for i := len(kinds) - 1; i >= first; i-- { // the widest first: the narrowest is the last to be forgotten
		near = history.Add(near, &kinds[i], ran, r.Epoch)
	}
}

// ownRuntimes returns the runtime history ready to be written.
func (r *Recorder) ownRuntimes() *RuntimeHistory {
	s := r.own()
	if r.runtimes == r.Epoch && s.Runtimes != nil {
		return s.Runtimes
	}
	next := &RuntimeHistory{}
	if s.Runtimes != nil {
		next.List, next.Used = slices.Clone(s.Runtimes.List), s.Runtimes.Used
	}
	s.Runtimes, r.runtimes = next, r.Epoch
	return next
}

// Service takes in how much service a job has taken that has completed.
func (r *Recorder) Service(j *model.Job) {
	if _, elastic := j.Elastic(); !elastic {
		return
	}
	rates, p := r.ownStepRates(j)
	p.At = r.At
	p.Ended++
	p.Service += (j.Attained() - p.Service) / min(p.Ended, servicesKept)
	rates[RateKey(j)] = p
}

// StepRate takes in how fast an attempt is. Of several measurements at one size the later count for
// more; what has not been seen for longest is forgotten.
func (r *Recorder) StepRate(j *model.Job, a *model.Attempt) {
	if e, elastic := j.Elastic(); elastic {
		rates, p := r.ownStepRates(j)
		rates[RateKey(j)] = p.With(stepRateOf(e, a), r.At)
	} else if j.Workers > 1 && len(j.Parts) == 0 {
		r.gangRate(j, a)
	}
}

// gangRate takes in how fast a gang is on as many nodes as it is on.
func (r *Recorder) gangRate(j *model.Job, a *model.Attempt) {
	s, key := r.own(), gangKey(j)
	s.GangRates = cloned(s.GangRates)
	if _, known := s.GangRates[key]; !known && len(s.GangRates) >= maxRatedNames {
		delete(s.GangRates, oldestRated(s.GangRates))
	}
	s.GangRates[key] = s.GangRates[key].With(gangRateOf(j, a), r.At)
}

// Move notes that a job moves for its own sake.
func (r *Recorder) Move() {
	s := r.own()
	s.Moves = append(slices.Clone(s.Moves[max(0, len(s.Moves)+1-MovesKept):]), r.At)
}

// ownStepRates returns the step rates ready to be written, and in them what is known of jobs like
// one.
func (r *Recorder) ownStepRates(j *model.Job) (map[string]StepRates, StepRates) {
	s, key := r.own(), RateKey(j)
	s.StepRates = cloned(s.StepRates)
	if _, known := s.StepRates[key]; !known && len(s.StepRates) >= maxRatedNames {
		delete(s.StepRates, oldestRated(s.StepRates))
	}
	return s.StepRates, s.StepRates[key]
}
