package sched_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestEveryRuleCanBeBroken plants a fault for every rule that judge knows, in what it sees or in
// what is planned, until it is told.
func TestEveryRuleCanBeBroken(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 400; seed++ {
				l := newLife(seed, fault.policy, map[string]int{})
				planted := false
				if fault.falsify != nil {
					l.judge.falsify = func(o *observed) {
						if o.now > 60_000 && !planted {
							planted = fault.falsify(l.judge, o)
						}
					}
				}
				if fault.spoil != nil {
					l.judge.spoil = func(v *state.View, actions *[]fsm.Action) {
						planted = fault.spoil(l.judge, v, actions) || planted
					}
				}
				err := l.play(60)
				switch {
				case err == nil && planted && fault.falsify != nil:
					t.Fatalf("seed=%d: no check noticed", seed)
				case err != nil && (!planted || !strings.Contains(err.Error(), fault.rule+": ")):
					t.Fatalf("seed=%d: planted %v: %v, want %s", seed, planted, err, fault.rule)
				case err != nil:
					return
				}
			}
			t.Errorf("there was no occasion for a fault, or no check noticed any")
		})
	}
}

// faults has one for each rule, at least. falsify and spoil return whether they found an occasion.
var faults = []struct {
	name, rule, policy string
	falsify            func(*judge, *observed) bool
	spoil              func(*judge, *state.View, *[]fsm.Action) bool
}{
	{name: "a clock starts again", rule: "A1", policy: "rota", falsify: func(j *judge, o *observed) bool {
		return change(o, func(job *model.Job, a *model.Attempt) bool {
			_, known := j.stops[schedtest.Attempt{Job: job.ID, N: a.N}]
			if a.Stop == nil || !known {
				return false
			}
			stop := *a.Stop
			stop.KillAt++
			a.Stop = &stop
			return true
		})
	}},
	{name: "a job that leaves is asked to leave", rule: "A1", policy: "rota", spoil: func(_ *judge, v *state.View,
		actions *[]fsm.Action) bool {
		for job := range v.Live() {
			if a := job.Live(); a.Stop != nil && job.Class != jobspec.TE {
				*actions = append(*actions, &fsm.StopJob{Job: job.ID, Attempt: a.N,
					Cause: model.CauseTE})
				return true
			}
		}
		return false
	}},
	{name: "a GPU is given out twice", rule: "A2", policy: "standard", falsify: func(_ *judge, o *observed) bool {
		var held *model.Worker
		return change(o, func(_ *model.Job, a *model.Attempt) bool {
			w := &a.Workers[0]
			if w.State.Final() || len(w.GPUs) == 0 {
				return false
			}
			if held == nil {
				held = w
				return false
			}
			w.Node, w.GPUs = held.Node, held.GPUs
			return true
		})
	}},
	{name: "more cores than there are", rule: "A2", policy: "standard", falsify: func(_ *judge, o *observed) bool {
		return change(o, func(job *model.Job, a *model.Attempt) bool {
			job.Request.Active.Cores = 1000
			return !a.Workers[0].State.Final()
		})
	}},
	{name: "a gang goes on without one", rule: "A3", policy: "standard", falsify: func(_ *judge, o *observed) bool {
		return change(o, func(_ *model.Job, a *model.Attempt) bool {
			if len(a.Workers) < 2 || a.Stop != nil || a.Workers[0].State.Final() {
				return false
			}
			a.Workers[1].State, a.Workers[1].ExitCode = model.WorkerExited, 1
			return true
		})
	}},
	{name: "a gang is one short", rule: "A4", policy: "standard", falsify: func(_ *judge, o *observed) bool {
		return change(o, func(_ *model.Job, a *model.Attempt) bool {
			if len(a.Workers) < 2 {
				return false
			}
			a.Workers = a.Workers[1:]
			return true
		})
	}},
	{name: "room is kept no more", rule: "A5", policy: "rota", falsify: func(j *judge, o *observed) bool {
		i := slices.IndexFunc(o.reservations, func(r *model.Reservation) bool {
			_, known := j.promised[r.Job]
			return r.ForPreemptor && known
		})
		if i >= 0 {
			o.reservations = slices.Delete(slices.Clone(o.reservations), i, i+1)
		}
		return i >= 0
	}},
	{name: "room is given to another", rule: "A5", policy: "rota", falsify: func(_ *judge, o *observed) bool {
		i := slices.IndexFunc(o.reservations, func(r *model.Reservation) bool { return r.ForPreemptor })
		if i < 0 {
			return false
		}
		more := *o.reservations[i]
		more.Job = -1 // takes as much again on the same nodes
		more.Claims = slices.Clone(more.Claims)
		for k := range more.Claims {
			more.Claims[k].Resources.Cores += 1000
		}
		o.reservations = append(slices.Clone(o.reservations), &more)
		return true
	}},
	{name: "room is kept where it cannot come", rule: "A5", policy: "rota", falsify: func(_ *judge, o *observed) bool {
		i := slices.IndexFunc(o.reservations, func(r *model.Reservation) bool { return r.ForPreemptor })
		if i < 0 || !o.atRest {
			return false
		}
		o.nodes = slices.Clone(o.nodes)
		for k, n := range o.nodes {
			if down := *n; n.Name == o.reservations[i].Claims[0].Node {
				down.State, o.nodes[k] = model.NodeDrained, &down
			}
		}
		return true
	}},
	{name: "a job that loses too much is displaced again", rule: "A6", policy: "rota",
		spoil: func(j *judge, v *state.View, actions *[]fsm.Action) bool {
			return displaceOne(v, actions, someWaiting(v), func(job *model.Job) bool {
				lost, held := wasteBy(job, j.Now)
				return job.Spec.Checkpoint != nil && lost*5 > held
			})
		}},
	{name: "a displacement is not counted", rule: "A7", policy: "rota", falsify: func(_ *judge, o *observed) bool {
		return swapJob(o, func(job *model.Job) bool {
			had := job.Counters.TE > 0
			job.Counters.TE = 0
			return had
		})
	}},
	{name: "a displacement uses up a retry", rule: "A7", policy: "rota", falsify: func(_ *judge, o *observed) bool {
		return swapJob(o, func(job *model.Job) bool {
			job.Failures = append(slices.Clone(job.Failures), o.now, o.now)
			return job.Counters.TE > 0 && job.Counters.UserFailures == 0
		})
	}},
	{name: "a trial waits for room", rule: "A8", policy: "rota", falsify: func(_ *judge, o *observed) bool {
		reason := o.reason
		if !o.atRest {
			return false
		}
		for _, job := range o.jobs {
			if job.Class == jobspec.TE && job.Waits() && job.Hold == model.NotHeld && job.Eligible <= o.now {
				o.reason = func(id model.JobID) model.Reason {
					if id == job.ID {
						return model.Reason{Code: model.ReasonResources}
					}
					return reason(id)
				}
				return true
			}
		}
		return false
	}},
	{name: "a trial starts late", rule: "A8", policy: "rota", falsify: func(j *judge, o *observed) bool {
		for id := range j.could {
			j.could[id] = o.now - 2000
			return true
		}
		return false
	}},
	{name: "no job leaves for a trial that is told so", rule: "A8", policy: "rota",
		falsify: func(j *judge, o *observed) bool {
			if !o.atRest || !slices.ContainsFunc(o.jobs, func(job *model.Job) bool {
				return job.Class == jobspec.TE && job.Waits() && o.reason(job.ID).Code == model.ReasonPreempting
			}) {
				return false
			}
			for i, job := range o.jobs {
				if a := job.Live(); a != nil && a.Stop != nil {
					next := *job
					next.Attempts = slices.Clone(job.Attempts)
					next.Attempts[len(next.Attempts)-1].Stop = nil
					o.jobs[i] = &next
				}
			}
			clear(j.promised)
			o.reservations = nil
			return true
		}},
	{name: "a charge is missing", rule: "A10", policy: "standard", falsify: func(_ *judge, o *observed) bool {
		return swapJob(o, func(job *model.Job) bool {
			job.Ledger.GPUMS--
			return job.Ledger.GPUMS > 0
		})
	}},
	{name: "a job leaves for no job", rule: "A12", policy: "rota", spoil: func(_ *judge, v *state.View,
		actions *[]fsm.Action) bool {
		return displaceOne(v, actions, 0, func(*model.Job) bool { return true })
	}},
	{name: "another gets the room of a job that left for none", rule: "A12", policy: "rota",
		spoil: func(_ *judge, v *state.View, actions *[]fsm.Action) bool {
			first := slices.IndexFunc(*actions, func(a fsm.Action) bool {
				start, ok := a.(*fsm.StartJob)
				return ok && v.Job(start.Job).OwnRoomFirst
			})
			if first < 0 {
				return false
			}
			other := slices.IndexFunc(*actions, func(a fsm.Action) bool {
				start, ok := a.(*fsm.StartJob)
				return ok && !v.Job(start.Job).OwnRoomFirst && v.Job(start.Job).Class == jobspec.BE
			})
			if other < first {
				return false
			}
			list := slices.Clone(*actions)
			list[first], list[other] = list[other], list[first]
			*actions = list
			return true
		}},
	{name: "two swap to and fro", rule: "I3", policy: "rota", spoil: func(j *judge, v *state.View,
		actions *[]fsm.Action) bool {
		for _, a := range *actions {
			if a, ok := a.(*fsm.StopJob); ok && a.Cause == model.CauseOrder {
				j.swaps[[2]model.JobID{min(a.Job, a.For), max(a.Job, a.For)}] = j.Now
				return true
			}
		}
		return false
	}},
	{name: "room idles", rule: "I5", policy: "standard", falsify: idles},
	{name: "room idles", rule: "I5", policy: "rota", falsify: idles},
	{name: "room idles", rule: "I5", policy: "fairshare", falsify: idles},
	{name: "room idles", rule: "I5", policy: "elastic", falsify: idles},
	{name: "room idles and no job is before", rule: "I5", policy: "fitgpp", falsify: idles},
}

// idles adds a job that waits although it fits, as the only one that does.
func idles(j *judge, o *observed) bool {
	if !o.atRest {
		return false
	}
	for _, job := range o.jobs {
		if job.Live() != nil && job.Workers == 1 && len(job.Exclude) == 0 {
			waiting := *job
			waiting.ID, waiting.State, waiting.Attempts, waiting.Request = o.jobs[len(o.jobs)-1].ID+1, model.Pending, nil,
				model.Request{}
			waiting.Ledger, waiting.Counters, waiting.Failures, waiting.Eligible = model.Ledger{}, model.Counters{}, nil, 0
			if schedtest.CouldStart(o.view, &waiting) && (j.policy != "fitgpp" || firstInOrder(o, &waiting)) {
				o.jobs = append(o.jobs, &waiting)
				return true
			}
		}
	}
	return false
}

// change changes the live attempt of a copy of some job.
func change(o *observed, do func(*model.Job, *model.Attempt) bool) bool {
	return swapJob(o, func(job *model.Job) bool {
		if job.Live() == nil {
			return false
		}
		job.Attempts = slices.Clone(job.Attempts)
		a := &job.Attempts[len(job.Attempts)-1]
		a.Workers = slices.Clone(a.Workers)
		return do(job, a)
	})
}

// swapJob puts a changed copy in the place of the first job for which do says so.
func swapJob(o *observed, do func(*model.Job) bool) bool {
	for i, job := range o.jobs {
		if next := *job; do(&next) {
			o.jobs[i] = &next
			return true
		}
	}
	return false
}

// someWaiting returns a job that waits, 0 if there is none.
func someWaiting(v *state.View) (id model.JobID) {
	for job := range v.Jobs() {
		if job.Waits() && job.Hold == model.NotHeld {
			id = job.ID
		}
	}
	return id
}

// displaceOne plans that one job leaves for another.
func displaceOne(v *state.View, actions *[]fsm.Action, taker model.JobID, will func(*model.Job) bool) bool {
	for job := range v.Live() {
		a := job.Live()
		if a.Stop != nil || job.Class == jobspec.TE || a.Started.At == 0 || !will(job) || job.DisplacedSince(0) > 0 {
			continue
		}
		if slices.ContainsFunc(*actions, func(o fsm.Action) bool {
			stop, ok := o.(*fsm.StopJob)
			return ok && stop.Job == job.ID
		}) {
			continue
		}
		*actions = append(slices.Clone(*actions), &fsm.StopJob{Job: job.ID, Attempt: a.N,
			Cause: model.CauseTE, For: taker})
		return true
	}
	return false
}
