package scratch

import (
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/limits"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// limiter has the counts of accounts, users and queues in a cycle. It begins with the counts of the
// state, and adds the jobs that the cycle starts. A job for which room is being freed counts as started,
// so that no later job of its owners takes what it needs.
type limiter struct {
	uses     map[cluster.Owner]*limits.Use
	own      map[cluster.Owner]bool // the use is a copy of this cycle
	bounds   map[ownersKey][]cluster.Bound
	promised map[model.JobID]bool
}

// ownersKey tells apart jobs that different limits count.
type ownersKey struct {
	model.Association
	queue string
}

// limiter returns the counts of the cycle, which are made when they are first needed.
func (t *State) limiter() *limiter {
	if t.limits != nil {
		return t.limits
	}
	l := &limiter{uses: map[cluster.Owner]*limits.Use{}, own: map[cluster.Owner]bool{},
		bounds: map[ownersKey][]cluster.Bound{}, promised: map[model.JobID]bool{}}
	for u := range t.View.LimitUses() {
		l.uses[u.Owner] = u
	}
	t.limits = l
	for _, r := range t.View.Reservations() {
		l.promise(t, r)
	}
	return l
}

// boundsOf returns the limits that count a job.
func (l *limiter) boundsOf(t *State, j *model.Job) []cluster.Bound {
	k := ownersKey{j.Association(), j.Queue}
	all, known := l.bounds[k]
	if !known {
		all = t.View.BoundsOf(j)
		l.bounds[k] = all
	}
	return all
}

// use returns the count of the owner of a limit.
func (l *limiter) use(b *cluster.Bound) *limits.Use {
	u := l.uses[b.Owner]
	if u == nil {
		u = limits.New(b)
		l.uses[b.Owner], l.own[b.Owner] = u, true
	}
	return u
}

// count adds a job to its owners' counts, or takes it out.
func (l *limiter) count(t *State, j *model.Job, nodes []string, begins bool) {
	need := limits.NeedOf(j)
	l.change(t, j, &need, nodes, begins)
}

func (l *limiter) change(t *State, j *model.Job, need *limits.Need, nodes []string, begins bool) {
	bounds := l.boundsOf(t, j)
	for i := range bounds {
		b := &bounds[i]
		u := l.use(b)
		if !l.own[b.Owner] {
			u = u.Clone()
			l.uses[b.Owner], l.own[b.Owner] = u, true
		}
		if begins {
			u.Begin(need, nodes)
		} else {
			u.Withdraw(need, nodes)
		}
	}
}

// promise counts a job for which room is being freed, unless it is counted already.
func (l *limiter) promise(t *State, r *model.Reservation) {
	j := t.View.Job(r.Job)
	if j == nil || !r.ForPreemptor || j.Bounded == model.Unbounded || l.promised[r.Job] || !j.StillToStart() {
		return
	}
	l.promised[r.Job] = true
	l.count(t, j, nil, true)
}

// exceeded returns the limit that keeps a job from starting on some nodes; nil: they are not known
// yet.
func (l *limiter) exceeded(t *State, j *model.Job, nodes []string) model.Reason {
	if l.promised[j.ID] { // it is in the counts itself
		l.count(t, j, nil, false)
		defer l.count(t, j, nil, true)
	}
	need, bounds := limits.NeedOf(j), l.boundsOf(t, j)
	for i := range bounds {
		b := &bounds[i]
		u := l.use(b)
		if why := limits.Exceeded(b, u, &need, nodes, t.Now); why.Code != model.ReasonNone {
			if at := limits.SpareAt(b, u, &need, t.Now); at != 0 {
				t.WakeAt(at)
			}
			return why
		}
	}
	return model.Reason{}
}

// OverLimit returns the limit that keeps a job from starting anywhere, with the starts of the plan
// so far. It returns nothing if none does.
func (t *State) OverLimit(j *model.Job) model.Reason {
	if j.Bounded == model.Unbounded {
		return model.Reason{}
	}
	return t.limiter().exceeded(t, j, nil)
}

// OverLimitAt returns the limit that keeps a job from starting at the spots that were found for it.
func (t *State) OverLimitAt(j *model.Job, spots []fit.Spot) model.Reason {
	if j.Bounded == model.Unbounded {
		return model.Reason{}
	}
	return t.limiter().exceeded(t, j.Resized(len(spots)), t.NodesOf(spots))
}

// BarredAt reports whether licences are missing for a job to start, or a limit keeps it from the
// spots that were found for it.
func (t *State) BarredAt(j *model.Job, spots []fit.Spot) bool {
	return t.OverLimitAt(j, spots).Code != model.ReasonNone || t.lacksLicenses(j).Code != model.ReasonNone
}

// OverLimitOn returns the limit that keeps a job from starting in the room that would be kept for
// it.
func (t *State) OverLimitOn(j *model.Job, claims []model.Claim) model.Reason {
	if j.Bounded == model.Unbounded {
		return model.Reason{}
	}
	nodes := make([]string, len(claims))
	for i := range claims {
		nodes[i] = claims[i].Node
	}
	return t.limiter().exceeded(t, j, limits.Distinct(nodes))
}

// GroupOverLimit reports whether a limit keeps all jobs of a group from starting. False says
// nothing: their time limits may differ.
func (t *State) GroupOverLimit(g *groups.Group) bool {
	if !g.Head.Bounded {
		return false
	}
	why := t.OverLimit(g.Jobs[0])
	return why.Code != model.ReasonNone && !limits.ByTime(why.Code)
}

// MayGrow reports whether limits allow a job that runs, or that the plan starts, to have so many
// workers, with further ones on some nodes. Nil nodes are not known yet.
func (t *State) MayGrow(j *model.Job, workers int, nodes []string) bool {
	if j.Bounded == model.Unbounded {
		return true
	}
	need := limits.Growth(j, workers)
	l := t.limiter()
	bounds := l.boundsOf(t, j)
	for i := range bounds {
		if limits.Exceeded(&bounds[i], l.use(&bounds[i]), &need, nodes, t.Now).Code != model.ReasonNone {
			return false
		}
	}
	return true
}

// Grow counts a job that is to have so many workers, with further ones on some nodes.
func (t *State) Grow(j *model.Job, workers int, nodes []string) {
	if j.Bounded != model.Unbounded {
		need := limits.Growth(j, workers)
		t.limiter().change(t, j, &need, nodes, true)
	}
}

// began counts a start of the plan.
func (t *State) began(j *model.Job, spots []fit.Spot) {
	if j.Bounded == model.Unbounded {
		return
	}
	l := t.limiter()
	if l.promised[j.ID] {
		delete(l.promised, j.ID)
		l.count(t, j, nil, false)
	}
	l.count(t, j.Resized(len(spots)), t.NodesOf(spots), true)
}

// unpromise takes out a job whose reservation ends without a start.
func (t *State) unpromise(id model.JobID) {
	if t.limits != nil && t.limits.promised[id] {
		delete(t.limits.promised, id)
		t.limits.count(t, t.View.Job(id), nil, false)
	}
}

// NodesOf returns the names of the nodes of spots, each once.
func (t *State) NodesOf(spots []fit.Spot) []string { return limits.NodesOf(t.Places(spots)) }
