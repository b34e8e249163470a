package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// shrinkPlan is which elastic jobs give up workers so that another job can start, and the room that it will have.
type shrinkPlan struct {
	claims []cluster.NodeRoom
	jobs   []*flexible // with the workers that are to leave
	leave  [][]int     // of each
	over   cluster.Instant
}

// shrinks looks for the cheapest surplus of running jobs that lets a gang start, all of it or nothing. A job that gives up workers is stopped
// once, however many they are, so its price is paid with the first of them. What leaves already counts as free, also what jobs of running give up
// in this cycle. Nothing is planned yet. Nil: there is no way.
func shrinks(t *trial, g *fit.Gang, running, list []*flexible, price func(*flexible) int64) *shrinkPlan {
	for _, settled := range []bool{false, true} {
		r := surplusRoster(t, running, list, price, settled)
		set := newSearch(t, r, g, 0).best()
		if set == nil {
			return nil
		}
		p := &shrinkPlan{claims: set.claims, over: t.now}
		if p.choose(t, r, set, list) {
			return p
		}
	}
	return nil
}

// surplusRoster is a roster whose victims are what elastic jobs have beyond their least. On each node a job may give up as much as it could at
// all; settled says that it is decided beforehand which workers those are, so that what several nodes give adds up.
func surplusRoster(t *trial, running, list []*flexible, price func(*flexible) int64, settled bool) *roster {
	n := len(t.view.Nodes())
	r := &roster{on: make([][]int32, n), draining: make([]cluster.Request, n), over: make([]cluster.Instant, n), called: map[cluster.JobID]cluster.Instant{}}
	for run := range t.view.Runs() {
		if run.Attempt.Stop != nil {
			r.leave(run)
		}
	}
	r.discount(t)
	for _, f := range running { // of those resized in this cycle
		for _, i := range f.leave {
			if slices.Contains(f.sick, i) {
				continue
			}
			r.drain(cluster.NodeRoom{Node: f.nodes[i], Room: f.request()}, t.now+cluster.Instant(graceOf(f.job)))
		}
	}
	for i, f := range list {
		v := victim{job: f.job, attempt: f.attempt, run: t.view.Run(f.job.ID), rooms: f.surplusOn(settled), grace: graceOf(f.job), score: price(f)}
		for _, s := range v.rooms {
			r.on[s.Node] = append(r.on[s.Node], int32(i))
		}
		r.longest = max(r.longest, v.grace)
		r.victims = append(r.victims, v)
	}
	r.weight = weightOfGrace
	return r
}

// choose names the workers that leave, no more than the claims need. It reports whether no job gives up more than it may.
func (p *shrinkPlan) choose(t *trial, r *roster, set *victimSet, list []*flexible) bool {
	left := map[int]int{}
	for _, i := range set.victims {
		list[i].leave = nil
		left[int(i)] = list[i].surplus()
	}
	defer func() {
		for _, i := range set.victims {
			if left[int(i)] < 0 {
				list[i].leave = nil
			}
		}
	}()
	for _, c := range set.claims {
		missing := positive(fit.Minus(c.Room, fit.Plus(t.room.Available(c.Node), r.draining[c.Node])))
		missing.Resident.Cores = 0
		for _, i := range set.victims {
			for f := list[i]; missing != (cluster.Request{}) && left[int(i)] > 0 && f.dropOn(c.Node); left[int(i)]-- {
				missing = positive(fit.Minus(missing, f.request()))
			}
		}
		if missing != (cluster.Request{}) {
			p.forget(set, list)
			return false
		}
	}
	for _, c := range set.claims {
		spareNeedless(list, set, c.Node, fit.Minus(fit.Plus(t.room.Available(c.Node), r.draining[c.Node]), c.Room))
	}
	for _, i := range set.victims {
		f := list[i]
		if len(f.leave) == 0 {
			continue
		}
		if odd := len(f.leave) % f.terms.Unit; odd > 0 {
			f.drop(f.terms.Unit - odd)
		}
		p.jobs, p.leave = append(p.jobs, f), append(p.leave, f.leave)
		p.over = max(p.over, t.now+cluster.Instant(graceOf(f.job)))
	}
	for _, c := range set.claims {
		p.over = max(p.over, r.over[c.Node])
	}
	return true
}

// spareNeedless lets workers on a node stay that were chosen before others which turned out to be enough. have is what there is beyond the claim
// without any that leave, which may be negative.
func spareNeedless(list []*flexible, set *victimSet, node int, have cluster.Request) {
	for _, i := range set.victims {
		for _, w := range list[i].leave {
			if list[i].nodes[w] == node {
				have = fit.Plus(have, list[i].request())
			}
		}
	}
	for _, i := range set.victims {
		f := list[i]
		f.leave = slices.DeleteFunc(f.leave, func(w int) bool {
			less := fit.Minus(have, f.request())
			if f.nodes[w] != node || less.Active.Cores < 0 || less.Active.Memory < 0 || less.Active.GPUs < 0 || less.Resident.Memory < 0 || less.Resident.GPUs < 0 {
				return false
			}
			have = less
			return true
		})
	}
}

func (p *shrinkPlan) forget(set *victimSet, list []*flexible) {
	for _, i := range set.victims {
		list[i].leave = nil
	}
	p.jobs = nil
}

// undo lets the workers of a plan stay, redo lets them leave again: of several plans only one is carried out.
func (p *shrinkPlan) undo() {
	if p == nil {
		return
	}
	for _, f := range p.jobs {
		f.leave = nil
	}
}

func (p *shrinkPlan) redo() {
	for i, f := range p.jobs {
		f.leave = p.leave[i]
	}
}

// makeWay keeps the room of a plan for a job and asks the others to give it up.
func makeWay(t *trial, j *cluster.Job, p *shrinkPlan) {
	v := &cluster.Reservation{Job: j.ID, At: t.now, Firm: true, Until: p.over + cluster.Instant(t.policy.ReserveHoldMS)}
	for _, c := range p.claims {
		v.Claims = append(v.Claims, cluster.Claim{Node: t.view.Nodes()[c.Node].Name, Room: fit.AtLeast(c.Room)})
	}
	t.room.Unclaim(j.ID)
	t.reserve(v)
	for _, f := range p.jobs {
		f.resize(t, j.ID)
	}
}

// without leaves out of a list the jobs that a plan has resized.
func without(list []*flexible) []*flexible {
	return slices.DeleteFunc(slices.Clone(list), func(f *flexible) bool { return len(f.leave)+len(f.join) > 0 })
}

// standstill is what a resize costs: the grace of a job and what it loses of its work, times what it holds, in ms of one GPU.
func standstill(t *trial, f *flexible) int64 {
	return f.job.ServiceOf(graceOf(f.job)+relaunchOf(f.job)) + unsaved(t, t.view.Run(f.job.ID))
}
