package specon

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/introspect"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// Policy says where jobs go, and which of them move.
type Policy struct {
	Name string

	fewest    bool // a job goes to the worker with the fewest jobs, at random among several; else in turn
	exclusive bool // a job has a worker for itself, and waits for one in order of arrival
	asks      bool // converged jobs ask for another worker: algorithms 1 and 2 of the paper
	printed   bool // as the paper prints its algorithm 1: the step from watching to converged is missing
	evens     bool // workers get as many jobs: introspect.EvenOut
	only      bool // for that, converged jobs move only, whenever they moved last: algorithm 3, corrected
	blind     bool // for that, classes do not count
	forgets   bool // a job that moves has no class at first: the node does not know what was before
	waits     bool // a job has run for introspect.Limits.EvenWorth times what a move takes before it moves
	weights   bool // parts of a worker go by class: introspect.Weights
}

// Policies are those that are compared. The first is the paper's baseline.
var Policies = []Policy{
	{Name: "spread"},
	{Name: "fewest", fewest: true},
	{Name: "printed", asks: true, printed: true, evens: true, only: true},
	{Name: "specon", asks: true, evens: true, only: true},
	{Name: "count", evens: true, blind: true},
	{Name: "rota", evens: true, forgets: true, waits: true},
	{Name: "rota-fewest", fewest: true, evens: true, forgets: true, waits: true},
	{Name: "rota-weights", evens: true, forgets: true, waits: true, weights: true},
	{Name: "exclusive", exclusive: true},
}

// PolicyNamed returns one of [Policies].
func PolicyNamed(name string) (*Policy, error) {
	i := slices.IndexFunc(Policies, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown policy %q", name)
	}
	return &Policies[i], nil
}

// place returns the worker of a job that arrives as number i.
func (e *engine) place(i int, r *rand.Rand) int {
	if !e.policy.fewest {
		return i % e.workers
	}
	counts := e.counts()
	least := slices.Min(counts)
	var best []int
	for w, n := range counts {
		if n == least {
			best = append(best, w)
		}
	}
	return best[r.IntN(len(best))]
}

// counts returns how many jobs each worker has, those on their way to it included.
func (e *engine) counts() []int {
	counts := make([]int, e.workers)
	for i := range e.runs {
		if v := &e.runs[i]; v.here() {
			counts[v.worker]++
		}
	}
	return counts
}

// class returns the class of a job as the policy sees it.
func (e *engine) class(v *run) convergence.Class {
	if c := v.meter.Class(); !e.policy.printed || c != convergence.Converged {
		return c
	}
	return convergence.Watching
}

// scores are the sums of the weights of the jobs of each worker, in tenths: algorithm 2.
func (e *engine) scores() []int64 {
	scores := make([]int64, e.workers)
	for i := range e.runs {
		if v := &e.runs[i]; v.here() {
			scores[v.worker] += e.class(v).Weight()
		}
	}
	return scores
}

// ask serves the requests of converged jobs one at a time. A job that shares its worker with
// progressing jobs moves to the worker with the lowest score. That score must stay lower with the
// job.
func (e *engine) ask() {
	for i := range e.runs {
		v := &e.runs[i]
		if !v.here() || v.moving > 0 || e.class(v) != convergence.Converged || e.now < v.rests || !e.growing(v.worker) {
			continue
		}
		v.rests = e.now + int64(introspect.Limits.EvenCoolDown)
		scores := e.scores()
		to := slices.Index(scores, slices.Min(scores))
		if scores[to]+convergence.Converged.Weight() < scores[v.worker] {
			e.move(v, to)
		}
	}
}

// growing reports whether a worker has jobs that have not converged.
func (e *engine) growing(worker int) bool {
	return slices.ContainsFunc(e.runs, func(v run) bool {
		return v.here() && v.worker == worker && e.class(&v) != convergence.Converged
	})
}

// gpu is the size of a worker, and of what a job asks for.
const gpu = 1000

// even moves jobs until the workers have as many.
func (e *engine) even() {
	sizes := slices.Repeat([]int64{gpu}, e.workers)
	for {
		var seats []introspect.Seat
		for i := range e.runs {
			v := &e.runs[i]
			if !v.here() {
				continue
			}
			s := introspect.Seat{Job: model.JobID(i + 1), Node: v.worker, Load: gpu, Class: e.class(v),
				Since: model.Instant(v.since), Cost: e.set.Transit, Stays: v.moving > 0}
			switch {
			case e.policy.only:
				s.Stays = s.Stays || s.Class != convergence.Converged
			default:
				s.Stays = s.Stays || e.now < v.rests || e.policy.waits && e.now-v.began < introspect.Limits.EvenWorth*e.set.Transit
			}
			if e.policy.blind {
				s.Class = ""
			}
			seats = append(seats, s)
		}
		s, to := introspect.EvenOut(sizes, seats, func(*introspect.Seat, int) bool { return true })
		if s == nil {
			return
		}
		v := &e.runs[s.Job-1]
		if !e.policy.only {
			v.rests = e.now + int64(introspect.Limits.EvenCoolDown)
		}
		e.move(v, to)
	}
}

func (e *engine) move(v *run, to int) {
	v.worker, v.moving, v.began = to, e.now+e.set.Transit, e.now+e.set.Transit
	e.moves++
	if e.policy.forgets {
		v.meter = convergence.Meter{Alpha: e.set.Alpha}
	}
}
