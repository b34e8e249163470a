package preempt

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// ShrinkPlan lists the elastic jobs that give up workers so that another job can start, and the
// room that it will have.
type ShrinkPlan struct {
	claims []estimate.NodeResources
	Jobs   []*elastic.RunningJob
	leave  [][]int // of each: the workers that are to leave
	over   model.Instant
}

// PlanShrink looks for the cheapest surplus of running jobs that lets a gang start, all of it or
// nothing. A job that gives up workers is stopped once, however many they are, so its price is paid
// with the first of them. Room that jobs are leaving counts as free, unless it goes back to its
// holder. So does room that jobs of running give up in this cycle. Nothing is planned yet. Nil:
// there is no way.
func PlanShrink(t *scratch.State, g *fit.Gang, running, list []*elastic.RunningJob,
	price func(*elastic.RunningJob) int64) *ShrinkPlan {
	// First with the freedom to choose workers on each node. If the set asks one job for too many
	// workers over several nodes, search again with its workers chosen beforehand.
	for _, settled := range []bool{false, true} {
		r := surplusCandidates(t, running, list, price, settled)
		set := NewSearch(t, r, Question{Gang: g}).Best()
		if set == nil {
			return nil
		}
		p := &ShrinkPlan{claims: set.Claims, over: t.Now}
		if p.choose(t, r, set, list) {
			return p
		}
	}
	return nil
}

// surplusCandidates are candidates for the surplus workers of elastic jobs. If it is not settled, a
// job offers on each node all the workers that it could give up. Together these may be too many. If
// it is settled, the workers that leave are chosen beforehand, so that the offers of its nodes add
// up.
func surplusCandidates(t *scratch.State, running, list []*elastic.RunningJob, price func(*elastic.RunningJob) int64,
	settled bool) *Candidates {
	n := len(t.View.Nodes())
	r := &Candidates{On: make([][]int32, n), Draining: make([]model.Request, n), Over: make([]model.Instant, n),
		Asked: map[model.JobID]model.Instant{}}
	// 1. Room that is being left, in earlier cycles and in this one.
	for run := range t.View.LiveAttempts() {
		if run.Stopping && !t.Returns(run) {
			r.leave(t, run)
		}
	}
	r.discount(t)
	for _, f := range running { // of those resized in this cycle
		for _, i := range f.Leave {
			if slices.Contains(f.Broken, i) {
				continue
			}
			r.drain(estimate.NodeResources{Node: f.Nodes[i], Room: f.Request()}, t.Now+model.Instant(scratch.GraceOf(f.Job)))
		}
	}
	// 2. The surplus of each job as a candidate.
	for i, f := range list {
		v := Candidate{Job: f.Job, Attempt: f.Attempt, run: t.View.LiveAttempt(f.Job.ID), Rooms: f.SurplusOn(settled),
			Grace: scratch.GraceOf(f.Job), Score: price(f)}
		for _, s := range v.Rooms {
			r.On[s.Node] = append(r.On[s.Node], int32(i))
		}
		r.longest = max(r.longest, v.Grace)
		r.List = append(r.List, v)
	}
	r.weight = tunables.GraceWeight
	return r
}

// choose notes the workers that leave, no more than the claims need. It reports whether no job
// gives up more than it may. It tries that on copies: the jobs stay as they are.
func (p *ShrinkPlan) choose(t *scratch.State, r *Candidates, set *Set, list []*elastic.RunningJob) bool {
	tries, left := make([]*elastic.RunningJob, len(set.Candidates)), make([]int, len(set.Candidates))
	for k, i := range set.Candidates {
		try := *list[i]
		tries[k], left[k] = &try, try.Surplus()
	}
	// 1. On each node workers leave until nothing is missing there.
	for _, c := range set.Claims {
		missing := c.Room.Minus(t.Room.Available(c.Node).Plus(r.Draining[c.Node])).Positive()
		missing.Resident.Cores = 0
		for k, f := range tries {
			for ; missing != (model.Request{}) && left[k] > 0 && f.DropOn(c.Node); left[k]-- {
				missing = missing.Minus(f.Request()).Positive()
			}
		}
		if missing != (model.Request{}) {
			return false
		}
	}
	// 2. Workers stay if later choices made them needless.
	for _, c := range set.Claims {
		spareNeedless(tries, c.Node, t.Room.Available(c.Node).Plus(r.Draining[c.Node]).Minus(c.Room))
	}
	// 3. Round each job up to a legal size, and note when the last worker will have left.
	for k, f := range tries {
		if len(f.Leave) == 0 {
			continue
		}
		f.DropOdd()
		p.Jobs, p.leave = append(p.Jobs, list[set.Candidates[k]]), append(p.leave, f.Leave)
		p.over = max(p.over, t.Now+model.Instant(scratch.GraceOf(f.Job)))
	}
	for _, c := range set.Claims {
		p.over = max(p.over, r.Over[c.Node])
	}
	return true
}

// spareNeedless lets workers on a node stay if later choices made them needless. have is the room
// beyond the claim if no worker leaves; it may be negative.
func spareNeedless(jobs []*elastic.RunningJob, node int, have model.Request) {
	for _, f := range jobs {
		for _, w := range f.Leave {
			if f.Nodes[w] == node {
				have = have.Plus(f.Request())
			}
		}
	}
	for _, f := range jobs {
		leave := slices.Clone(f.Leave)
		if f.Terms.Signal { // the last workers leave: the first of those may stay
			slices.Sort(leave)
		}
		for _, w := range leave {
			less := have.Minus(f.Request())
			if f.Nodes[w] != node || overdrawn(less) {
				if f.Terms.Signal {
					break
				}
				continue
			}
			have = less
			f.Leave = slices.DeleteFunc(f.Leave, func(o int) bool { return o == w })
		}
	}
}

// Shrink keeps the room of a plan for a job and asks the others to give it up.
func Shrink(t *scratch.State, j *model.Job, p *ShrinkPlan) {
	v := t.NewReservation(j.ID, t.Claims(p.claims), p.over)
	v.ForPreemptor = true
	t.Room.Unclaim(j.ID)
	t.Reserve(v)
	for i, f := range p.Jobs {
		f.Leave = p.leave[i]
		f.Resize(t, j.ID)
	}
}

// Unchanged leaves out of a list the jobs that a plan has resized.
func Unchanged(list []*elastic.RunningJob) []*elastic.RunningJob {
	return slices.DeleteFunc(slices.Clone(list), func(f *elastic.RunningJob) bool { return len(f.Leave)+len(f.Join) > 0 })
}

// StandstillPart returns the cost of resizing one of some jobs, relative to the dearest of them.
func StandstillPart(t *scratch.State, list []*elastic.RunningJob) func(*elastic.RunningJob) int64 {
	most := int64(1)
	for _, f := range list {
		most = max(most, standstill(t, f))
	}
	return func(f *elastic.RunningJob) int64 { return Ratio(standstill(t, f), most) }
}

// standstill is the cost of a resize, in ms of one GPU: grace and restart for all room of the job,
// and its unsaved work.
func standstill(t *scratch.State, f *elastic.RunningJob) int64 {
	if f.Terms.Signal {
		return 0
	}
	still := scratch.GraceOf(f.Job) + elastic.RestartCost(f.Job)
	return f.Job.ServiceOf(still) + UnsavedWork(t, t.View.LiveAttempt(f.Job.ID))
}
