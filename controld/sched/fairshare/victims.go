package fairshare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// # Which jobs leave
//
// Of accounts over their share the search takes one job after another until the waiting job can be
// placed: from the account furthest above its share first, and of its jobs the one that loses
// least. Then jobs that turned out not to be needed are put back, the dearest first.

// reclaimable is a running job that could leave.
type reclaimable struct {
	job     *model.Job
	attempt *model.Attempt
	leaf    *drf.Node
	amount  drf.Amount
	cost    int64 // seconds of GPUs lost, as [model.Job.ServiceOf] counts them
	// of attained service, where that counts; 0 of all small jobs, of which the last that started
	// leaves first
	level int
	since model.Instant
}

// candidates lists the jobs that could leave as far as they alone are concerned, in order of id.
func (f *Accounts) candidates() []reclaimable {
	least := MinRuntime(f.State)
	var list []reclaimable
	for j := range f.View.Live() {
		a := j.Live()
		switch {
		case a.Stop != nil || queue.ClassRank(j.Class) == 0 || a.Started.At == 0 || f.expiring(j) ||
			preempt.Wasteful(f.State, j):
		case f.Now-a.Started.At < least:
			f.WakeAt(a.Started.At + least)
		default:
			d := reclaimable{job: j, attempt: a, leaf: f.Leaf(j.Association()), amount: f.HeldBy(j, a), cost: f.lost(j),
				since: a.Started.At}
			if had := scratch.AttainedService(j, a, f.Now); f.QuotaOnly && had >= preempt.ServedLeast {
				d.level = j.ServiceLevelAt(had)
			}
			list = append(list, d)
		}
	}
	return list
}

// expiring reports whether this cycle stops, ends or resizes a job.
func (f *Accounts) expiring(j *model.Job) bool {
	return slices.ContainsFunc(f.Actions, func(a fsm.Action) bool {
		return a.Stop != nil && a.Stop.Job == j.ID || a.End != nil && a.End.Job == j.ID || a.Resize != nil &&
			a.Resize.Job == j.ID
	})
}

// MinRuntime is how long a job runs undisturbed.
func MinRuntime(t *scratch.State) model.Instant {
	return model.Instant(cmp.Or(t.Policy.MinRuntimeMS, tunables.MinRuntimeMS))
}

// lost is what it costs to take a job away: the work that it has not saved, and its grace.
func (f *Accounts) lost(j *model.Job) int64 {
	return (preempt.UnsavedWork(f.State, f.View.LiveAttempt(j.ID)) + j.ServiceOf(tunables.GraceWeight*scratch.GraceOf(j))) / 1000
}

// reclaimSet is a set of jobs that make room for one, and where it then runs.
type reclaimSet struct {
	taken []reclaimable
	spots []fit.Spot
	cost  int64
}

// cheapestRested is cheapest, but if only configured quota counts it takes jobs that were preempted
// as often as a job may be only if there is no other way: an account is entitled to its quota all
// the same.
func (f *Accounts) cheapestRested(g *fit.Gang, leaf *drf.Node, asks drf.Amount, room *fit.Room,
	victims []reclaimable) *reclaimSet {
	if f.QuotaOnly {
		rested := slices.DeleteFunc(slices.Clone(victims), func(v reclaimable) bool { return preempt.WornOut(v.job) })
		if best := f.cheapest(g, leaf, asks, room, rested); best != nil || len(rested) == len(victims) {
			return best
		}
	}
	return f.cheapest(g, leaf, asks, room, victims)
}

// cheapest finds the jobs to take: on each node that could hold all of the gang, else anywhere.
func (f *Accounts) cheapest(g *fit.Gang, leaf *drf.Node, asks drf.Amount, room *fit.Room,
	victims []reclaimable) *reclaimSet {
	victims = slices.DeleteFunc(slices.Clone(victims), func(v reclaimable) bool { return !f.mayTake(leaf, asks, v.leaf) })
	if len(victims) == 0 {
		return nil
	}
	var best *reclaimSet
	if len(g.More) == 0 && g.Workers <= g.PerNode {
		there := byNode(victims)
		for node, n := range f.View.Nodes() {
			if there[n.Name] == nil || !room.Usable(node, &g.Part, g.Exclude) ||
				fit.Capacity(&g.Part, fit.Both(room.Total(node))) < g.Workers {
				continue
			}
			try := f.take(leaf, asks, room, there[n.Name], func(r *fit.Room) ([]fit.Spot, bool) { return r.PlaceOn(g, node) })
			if try != nil && (best == nil || cmp.Or(cmp.Compare(try.cost, best.cost),
				cmp.Compare(len(try.taken), len(best.taken))) < 0) {
				best = try
			}
		}
	}
	if best == nil {
		best = f.take(leaf, asks, room, victims, func(r *fit.Room) ([]fit.Spot, bool) { return r.Place(g) })
	}
	return best
}

// byNode lists jobs by the nodes on which they hold something.
func byNode(victims []reclaimable) map[string][]reclaimable {
	there := map[string][]reclaimable{}
	for _, v := range victims {
		seen := map[string]bool{}
		for i := range v.attempt.Workers {
			if w := &v.attempt.Workers[i]; !w.State.Final() && !seen[w.Node] {
				seen[w.Node] = true
				there[w.Node] = append(there[w.Node], v)
			}
		}
	}
	return there
}

// take takes jobs away until place succeeds, puts back what is not needed, and leaves everything as
// it was. Nil: it does not succeed.
func (f *Accounts) take(leaf *drf.Node, asks drf.Amount, room *fit.Room, victims []reclaimable,
	place func(*fit.Room) ([]fit.Spot, bool)) *reclaimSet {
	var taken, needed []reclaimable
	defer func() {
		for _, v := range taken {
			v.leaf.Hold(v.amount)
		}
		for i := range needed {
			f.putBack(room, &needed[i])
		}
	}()
	for {
		if _, ok := place(room); ok {
			break
		}
		i := f.next(leaf, asks, victims, taken)
		if i < 0 || len(taken) == tunables.MaxTaken {
			return nil
		}
		v := victims[i]
		f.release(room, v.job, v.attempt)
		v.leaf.Hold(v.amount.Negative())
		taken, needed = append(taken, v), append(needed, v)
	}
	needed = f.prune(room, taken, place)
	out := &reclaimSet{taken: needed}
	for _, v := range needed {
		out.cost += v.cost
	}
	out.spots, _ = place(room)
	return out
}

// next returns the job to take next, -1 if none may be taken: of the account furthest above its
// share the job that costs least.
func (f *Accounts) next(leaf *drf.Node, asks drf.Amount, victims, taken []reclaimable) int {
	best := -1
	for i := range victims {
		v := &victims[i]
		if slices.ContainsFunc(taken, func(o reclaimable) bool { return o.job == v.job }) || !f.mayTake(leaf, asks, v.leaf) {
			continue
		}
		if best < 0 || victims[best].after(v) {
			best = i
		}
	}
	return best
}

// after reports whether v is taken rather later than o.
func (v *reclaimable) after(o *reclaimable) bool {
	if a, b := drf.Part(v.leaf, o.leaf); a != nil {
		if by := drf.CompareFullness(a, b); by != 0 {
			return by < 0
		}
	}
	return cmp.Or(cmp.Compare(v.cost, o.cost), cmp.Compare(o.level, v.level), cmp.Compare(o.since, v.since),
		cmp.Compare(o.job.ID, v.job.ID)) > 0
}

// mayTake reports whether a job of a leaf may be taken now for one of another that asks for so
// much.
func (f *Accounts) mayTake(leaf *drf.Node, asks drf.Amount, from *drf.Node) bool {
	mine, theirs := drf.Part(leaf, from)
	if mine == nil || !f.mayReclaim(mine) || !mine.Within(asks) || !drf.HasUsedLess(mine, theirs) {
		return false
	}
	for n := from; n != theirs.Parent(); n = n.Parent() {
		if !n.Above() {
			return false
		}
	}
	return true
}

// prune puts back the jobs that are not needed for place to succeed, the dearest first, and returns
// the others.
func (f *Accounts) prune(room *fit.Room, taken []reclaimable, place func(*fit.Room) ([]fit.Spot, bool)) []reclaimable {
	needed := slices.Clone(taken)
	dearest := slices.Clone(taken)
	slices.SortStableFunc(dearest, func(a, b reclaimable) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.job.ID, b.job.ID))
	})
	for i := range dearest {
		d := &dearest[i]
		f.putBack(room, d)
		if _, ok := place(room); ok {
			needed = slices.DeleteFunc(needed, func(v reclaimable) bool { return v.job == d.job })
		} else {
			f.release(room, d.job, d.attempt)
		}
	}
	return needed
}

func (f *Accounts) release(room *fit.Room, j *model.Job, a *model.Attempt) {
	for i := range a.Workers {
		w := &a.Workers[i]
		if _, n := f.View.Node(w.Node); n >= 0 && !w.State.Final() && !scratch.Stays(a, i) {
			room.Release(n, j.RequestOf(i), w.GPUs)
		}
	}
}

// putBack undoes release for a job that runs.
func (f *Accounts) putBack(room *fit.Room, d *reclaimable) {
	for i := range d.attempt.Workers {
		w := &d.attempt.Workers[i]
		if _, n := f.View.Node(w.Node); n >= 0 && !w.State.Final() && !scratch.Stays(d.attempt, i) {
			room.PutBack(n, d.job.RequestOf(i), w.GPUs)
		}
	}
}
