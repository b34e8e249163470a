package fairshare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// # Which jobs leave
//
// The search takes one job after another from accounts over their share until the waiting job can
// be placed. It takes from the account furthest above its share, and of its jobs the one that loses
// least. Then jobs that turned out to be needless are put back, the dearest first.

// beneficiary is the account tree's leaf of a job that others leave for, and what the job asks for.
type beneficiary struct {
	job  *model.Job
	leaf *drf.TreeNode
	asks drf.Amount
}

// reclaimable is a running job that could leave.
type reclaimable struct {
	job     *model.Job
	attempt *model.Attempt
	leaf    *drf.TreeNode
	amount  drf.Amount
	cost    int64 // seconds of GPUs lost, as [model.Job.ServiceOf] counts them
	since   model.Instant

	// A job that can be suspended costs as much as its suspension. If its memory turns out to be in the
	// way, it is stopped in place of that, and costs more.
	mayPause bool
	stopped  int64 // cost of a stop
	pauses   bool  // it is to be suspended
	wasteful bool  // it would lose too much by being stopped
}

// reclaimables lists the jobs that may leave by their own state, in order of id. Shares are checked
// later.
func (f *Accounts) reclaimables() []reclaimable {
	least, ending := MinRuntime(f.state), f.state.Ending()
	var list []reclaimable
	for j := range f.state.View.Live() {
		a := j.Live()
		// Trial-and-error jobs, jobs that are leaving or suspended, and jobs that have just begun stay.
		// Of a job that can pause the lesser cost counts; one that would lose too much by a stop may only
		// pause.
		switch {
		case a.Stop != nil || a.Shrinking() || a.Suspending() || a.Suspended() || queue.ClassRank(j.Class) == 0 ||
			a.Started.At == 0 || ending[j.ID]:
		case f.state.Now-undisturbed(a) < least:
			f.state.WakeAt(undisturbed(a) + least)
		default:
			d := reclaimable{job: j, attempt: a, leaf: f.Leaf(j.Association()), amount: f.HeldBy(j, a), cost: f.lost(j),
				since: a.Started.At, mayPause: f.mayPause(j), wasteful: preempt.Wasteful(f.state, j)}
			if d.stopped = d.cost; d.mayPause {
				d.cost = min(d.cost, f.pauseCosts(j))
			}
			if d.mayPause || !d.wasteful {
				list = append(list, d)
			}
		}
	}
	return list
}

// undisturbed returns the start of an attempt, or its last resume after a pause for another job.
func undisturbed(a *model.Attempt) model.Instant { return max(a.Started.At, preempt.ResumedAt(a)) }

// mayPause reports whether a job can be suspended in place of being stopped.
func (f *Accounts) mayPause(j *model.Job) bool {
	return j.CanSuspend() && preempt.MayPause(f.state, f.state.View.LiveAttempt(j.ID))
}

// pauseCosts is the loss of a job that is suspended.
func (f *Accounts) pauseCosts(j *model.Job) int64 {
	return j.ServiceOf(tunables.GraceWeight*preempt.PauseCosts(preempt.ExpectedGrace(f.state, j))) / 1000
}

// MinRuntime is how long a job may run before others may displace it.
func MinRuntime(t *scratch.State) model.Instant {
	return model.Instant(cmp.Or(t.Policy.MinRuntimeMS, tunables.MinRuntimeMS))
}

// lost is the cost of stopping a job: its unsaved work and its grace.
func (f *Accounts) lost(j *model.Job) int64 {
	unsaved := preempt.UnsavedWork(f.state, f.state.View.LiveAttempt(j.ID))
	cost := (unsaved + j.ServiceOf(tunables.GraceWeight*preempt.ExpectedGrace(f.state, j))) / 1000
	if j.Spec.RunsOnce() {
		cost += endsForGood
	}
	return cost
}

// endsForGood exceeds the cost of any set of jobs that can be started again.
const endsForGood = int64(1) << 48

// reclaimSet is a set of jobs that make room for one, and where it then runs.
type reclaimSet struct {
	taken []reclaimable
	spots []fit.Spot
	cost  int64
}

// cheapest finds the jobs to take: the cheapest set on one node, else a set on any nodes. Nil:
// there is none.
func (r *reclaimer) cheapest(g *fit.Gang, by beneficiary, reclaimables []reclaimable) *reclaimSet {
	// Most jobs are ruled out before any is tried: by shares, and by what displacing them is worth.
	reclaimables = slices.DeleteFunc(slices.Clone(reclaimables), func(v reclaimable) bool {
		return !r.mayTake(by, &v) || !r.worth(by, &v)
	})
	if len(reclaimables) == 0 {
		return nil
	}
	// A gang that fits one node is tried on each node, with the jobs of that node alone. That takes
	// few jobs, and no job leaves a node on which the gang does not run.
	var best *reclaimSet
	if len(g.More) == 0 && g.Workers <= g.PerNode {
		there := r.byNode(reclaimables)
		for node := range r.state.View.Nodes() {
			if there[node] == nil || !r.room.Usable(node, &g.Component, g.Exclude) ||
				fit.Capacity(&g.Component, fit.Both(r.room.Total(node))) < g.Workers {
				continue
			}
			try := r.take(by, there[node], func() ([]fit.Spot, bool) { return r.room.PlaceOn(g, node) })
			if try != nil && (best == nil || cmp.Or(cmp.Compare(try.cost, best.cost),
				cmp.Compare(len(try.taken), len(best.taken))) < 0) {
				best = try
			}
		}
	}
	// Else anywhere.
	if best == nil {
		best = r.take(by, reclaimables, func() ([]fit.Spot, bool) { return r.room.Place(g) })
	}
	return best
}

// byNode lists jobs by the nodes on which they hold something.
func (r *reclaimer) byNode(reclaimables []reclaimable) map[int][]reclaimable {
	there := map[int][]reclaimable{}
	for _, v := range reclaimables {
		for _, node := range r.state.Leaving(v.attempt) {
			if list := there[node]; len(list) == 0 || list[len(list)-1].job != v.job {
				there[node] = append(list, v)
			}
		}
	}
	return there
}

// take removes jobs until place succeeds, puts back the needless ones, and restores room and tree
// in the end. Nil: place did not succeed.
func (r *reclaimer) take(by beneficiary, reclaimables []reclaimable, place func() ([]fit.Spot, bool)) *reclaimSet {
	// The search changes both the room and the account tree. Whatever the result, it restores them.
	var taken, needed []reclaimable
	defer func() {
		for _, v := range taken {
			v.leaf.Hold(v.amount)
		}
		for i := range needed {
			r.giveBack(&needed[i])
		}
	}()
	// Greedy: one job at a time, the account furthest above its share first, until the gang fits. Each
	// job that is taken lowers what its account holds, so that the next may be of another account.
	for {
		if _, ok := place(); ok {
			break
		}
		i := r.next(by, reclaimables, taken)
		if i < 0 || len(taken) == tunables.MaxTaken {
			return nil
		}
		v := reclaimables[i]
		r.accounts.release(r.room, v.job, v.attempt)
		v.leaf.Hold(v.amount.Negative())
		taken, needed = append(taken, v), append(needed, v)
	}
	// Reverse deletion: give back the needless ones, and stop only those that cannot pause instead. A
	// job that would lose too much by a stop spoils the set.
	needed = r.suspend(r.prune(taken, place), place)
	out := &reclaimSet{taken: needed}
	for _, v := range needed {
		if out.cost += v.cost; !v.pauses && v.wasteful {
			return nil
		}
	}
	out.spots, _ = place()
	return out
}

// next returns the job to take next: the cheapest job of the account furthest above its share. -1:
// none may be taken.
func (r *reclaimer) next(by beneficiary, reclaimables, taken []reclaimable) int {
	best := -1
	for i := range reclaimables {
		v := &reclaimables[i]
		if slices.ContainsFunc(taken, func(o reclaimable) bool { return o.job == v.job }) || !r.mayTake(by, v) {
			continue
		}
		if best < 0 || reclaimables[best].after(v) {
			best = i
		}
	}
	return best
}

// after reports whether v is taken after o.
func (v *reclaimable) after(o *reclaimable) bool {
	if a, b := drf.Part(v.leaf, o.leaf); a != nil {
		if by := drf.CompareFullness(a, b); by != 0 {
			return by < 0
		}
	}
	return cmp.Or(cmp.Compare(v.cost, o.cost), cmp.Compare(o.since, v.since),
		cmp.Compare(o.job.ID, v.job.ID)) > 0
}

// mayTake reports whether a job may be taken now for another. Two accounts or users that cannot
// have their parts at once take turns. The one that has had its turn need not be above its share
// then.
func (r *reclaimer) mayTake(by beneficiary, v *reclaimable) bool {
	// mine and theirs are the ancestors of the two jobs at the level where their accounts part.
	mine, theirs := drf.Part(by.leaf, v.leaf)
	if mine == nil || !r.accounts.mayReclaim(mine) {
		return false
	}
	if !mine.Within(by.asks) {
		return r.accounts.indivisible(mine, by.asks) && v.job.Width() < by.job.Width()
	}
	if !drf.HasUsedLess(mine, theirs) {
		return false
	}
	// The other account, and all nodes down to its user, must be above their shares even now, after
	// the jobs that were taken before.
	for n := v.leaf; n != theirs.Parent(); n = n.Parent() {
		if !n.Above() {
			return false
		}
	}
	return true
}

// indivisible reports whether a job alone exceeds the entitlement of its account or user, which
// holds nothing, but by no more than twice. Such an account can never have its part at once with
// others.
func (f *Accounts) indivisible(n *drf.TreeNode, asks drf.Amount) bool {
	if f.Worth == nil || n.Guaranteed() || n.Holding(nil).Sign() > 0 {
		return false
	}
	return n.Holding(asks).Cmp(n.Due().Plus(n.Due())) <= 0
}

// worth reports whether a job is worth displacing for another. It is if the other's account has a
// quota for it. For an equal part the other job first waits for as long as jobs run undisturbed,
// since room may come free by itself.
func (r *reclaimer) worth(by beneficiary, v *reclaimable) bool {
	mine, _ := drf.Part(by.leaf, v.leaf)
	if r.accounts.promised(mine) {
		return true
	}
	at := by.job.Eligible + MinRuntime(r.state)
	r.state.WakeAt(at)
	return at <= r.state.Now && r.accounts.Worth(by.job, v.job, v.attempt, v.mayPause)
}

// prune puts back the jobs that are not needed for place to succeed, the dearest first, and returns
// the others.
func (r *reclaimer) prune(taken []reclaimable, place func() ([]fit.Spot, bool)) []reclaimable {
	needed := slices.Clone(taken)
	dearest := slices.Clone(taken)
	slices.SortStableFunc(dearest, func(a, b reclaimable) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.job.ID, b.job.ID))
	})
	for _, d := range dearest {
		r.accounts.putBack(r.room, d.job, d.attempt)
		if _, ok := place(); ok {
			needed = slices.DeleteFunc(needed, func(v reclaimable) bool { return v.job == d.job })
		} else {
			r.accounts.release(r.room, d.job, d.attempt)
		}
	}
	return needed
}

// suspend lets jobs that were taken pause in place of being stopped, as far as place succeeds
// although they keep their memory. Jobs that would lose most by a stop are tried first.
func (r *reclaimer) suspend(taken []reclaimable, place func() ([]fit.Spot, bool)) []reclaimable {
	byLoss := make([]int, 0, len(taken))
	for i := range taken {
		if taken[i].mayPause {
			byLoss = append(byLoss, i)
		}
	}
	slices.SortStableFunc(byLoss, func(a, b int) int { return cmp.Compare(taken[b].stopped, taken[a].stopped) })
	for _, i := range byLoss {
		v := &taken[i]
		// Try the job as paused. If the gang does not fit then, the job is stopped, at the cost of that.
		r.accounts.putBack(r.room, v.job, v.attempt)
		v.pauses = true
		r.free(v)
		if _, ok := place(); !ok {
			r.giveBack(v)
			v.pauses, v.cost = false, v.stopped
			r.free(v)
		}
	}
	return taken
}

// free adds the room of a taken job to the free room.
func (r *reclaimer) free(v *reclaimable) {
	if !v.pauses {
		r.accounts.release(r.room, v.job, v.attempt)
		return
	}
	for i, node := range r.state.Leaving(v.attempt) {
		r.room.Release(node, v.job.FreedBySuspension(v.attempt, i), v.attempt.Workers[i].GPUs)
	}
}

// giveBack undoes free.
func (r *reclaimer) giveBack(v *reclaimable) {
	if !v.pauses {
		r.accounts.putBack(r.room, v.job, v.attempt)
		return
	}
	for i, node := range r.state.Leaving(v.attempt) {
		r.room.PutBack(node, v.job.FreedBySuspension(v.attempt, i), v.attempt.Workers[i].GPUs)
	}
}

func (f *Accounts) release(room *fit.Room, j *model.Job, a *model.Attempt) {
	for i, node := range f.state.Leaving(a) {
		room.Release(node, j.Holds(a, i), a.Workers[i].GPUs)
	}
}

// putBack undoes release.
func (f *Accounts) putBack(room *fit.Room, j *model.Job, a *model.Attempt) {
	for i, node := range f.state.Leaving(a) {
		room.PutBack(node, j.Holds(a, i), a.Workers[i].GPUs)
	}
}
