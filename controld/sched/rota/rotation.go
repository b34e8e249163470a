package rota

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// rotationEntry is a best-effort job that runs or waits, and its place in the order.
type rotationEntry struct {
	job       *model.Job
	level     int
	service   int64         // in the unit of model.Job.Attained; 0 of a job that comes first whatever it has had
	candidate int           // index in Candidates of one that runs, -1 of one that waits
	in        bool          // it should run
	group     *groups.Group // of one that waits

	leaf *drf.Node
	// of each node from the leaf up: what those below it ask for that come up to this job, in order
	under map[*drf.Node]drf.Amount
	full  map[*drf.Node]drf.Ratio // how full that would make the node, as far as it was asked
}

// rotate makes room for best-effort jobs, once a minute: first for those of accounts and users
// below their quota, then for those that have had little, with the room of running ones
// that have had much more.
func (m *preemptor) rotate() {
	if !m.anyWaits() {
		return
	}
	every := min(tunables.RotationMS, fairshare.MinRuntime(m.State))
	if l := m.View.Statistics(); l != nil && m.Now-l.LastRotation < every && l.LastRotation > 0 {
		m.WakeAt(l.LastRotation + every)
		return
	}
	m.RotationChecked = true
	m.WakeAt(m.Now + every)
	m.reclaim()
	turns, surplus := m.anyServedEnough(m.All()), m.anySurplus()
	if !turns && !surplus {
		return
	}
	f := m.accounts()
	f.Foresee()
	list := m.rotationOrder(f)
	m.admit(list)
	asked, shared, vain := 0, m.Room.Sharing(), map[*groups.Group]bool{}
	for i := range list {
		w := &list[i]
		if w.candidate >= 0 || !w.in && !surplus || asked == tunables.Callers || vain[w.group] || m.overLimit(w.job) ||
			m.backsOff(w.job) {
			continue
		}
		asked++
		m.place = i
		g := m.Gang(w.job)
		if !m.defragment(w.job, &g) && !m.preempt(w.job, &g, model.CauseOrder,
			func(v *preempt.Candidate) int { return m.reluctanceToRotate(v, w, shared) }, allDegrees) {
			vain[w.group] = len(w.job.Exclude) == 0
		}
		f.CatchUp()
	}
}

// yields reports whether room that is kept for a blocked head is no obstacle to a job: it is kept
// for that job, or for one that comes after it.
func (m *preemptor) yields(r *model.Reservation, j *model.Job) bool {
	place, known := m.places[r.Job]
	return r.Job == j.ID || known && place > m.place
}

// reclaim gives accounts and users back what they are entitled to.
func (m *preemptor) reclaim() {
	f := m.accounts()
	f.Candidates = m.All()
	f.Reclaim()
}

// anyWaits reports whether best-effort jobs wait that are not held.
func (m *preemptor) anyWaits() bool {
	for g := range m.View.QueueGroups() {
		if !g.Head.Held && !g.Head.TE && (len(g.Jobs) > 1 || m.Started[g.Jobs[0].ID] == 0) {
			return true
		}
	}
	return false
}

// anyServedEnough notes of every candidate whether it may be displaced for one that has had less,
// and reports whether any may.
func (m *preemptor) anyServedEnough(r *preempt.Candidates) bool {
	any := false
	m.servedLong = make([]bool, len(r.List))
	if m.Policy.MinTurnMS < 0 {
		return false
	}
	for i, v := range r.Each() {
		m.servedLong[i] = !v.Taken && m.servedEnough(v)
		any = any || m.servedLong[i]
	}
	return any
}

// anySurplus reports whether an elastic job has workers beyond its least.
func (m *preemptor) anySurplus() bool {
	return slices.ContainsFunc(m.Elastic, func(f *elastic.Job) bool { return f.Job.Class == jobspec.BE && f.Surplus() > 0 })
}

// servedEnough reports whether a running job has had its turn: it can save what it has done, has
// run for long enough, and was not displaced too often. A wide gang keeps its room: it waits long
// for a chance to get it together again.
func (m *preemptor) servedEnough(v *preempt.Candidate) bool {
	a := v.Attempt
	if v.Job.Spec.Checkpoint == nil || a.Started.At == 0 || !m.mayDisplace(v.Job) || v.Job.Width() >= model.WideGPUs {
		return false
	}
	tired := 1 + tunables.TiredFor*model.Instant(max(0, preempt.Displacements(v.Job)-tunables.TiredAfter))
	grace, _ := preempt.UsualGrace(m.State, v.Job.Queue) // nothing until enough have been displaced
	cost := a.Started.At - a.Assigned.At + model.Instant(grace)
	ran := m.Now - a.Started.At
	if ran < max(fairshare.MinRuntime(m.State), tunables.TurnPerCost*cost) {
		return false
	}
	least := model.Instant(cmp.Or(m.Policy.MinTurnMS, tunables.MinTurnMS))
	return ran >= least*tired || m.Policy.MinTurnMS == 0 && ran >= tunables.LongTurnMS*tired && m.goesOn(v)
}

// goesOn reports whether a running job is of a kind that by the cluster's history runs for so long
// yet that its turn need not be longer than that. Most others are about to end when it is over.
func (m *preemptor) goesOn(v *preempt.Candidate) bool {
	left, known := m.View.Statistics().PredictRemaining(v.Job,
		v.Job.RuntimeOf(scratch.AttainedService(v.Job, v.Attempt, m.Now)))
	return known && model.Instant(left) >= tunables.LongTurnMS
}

// reluctanceToShrink says how readily an elastic job gives up workers beyond its least, as reluctance
// does: for any job that waits, once it has kept its size for as long as a restart costs it.
func (m *preemptor) reluctanceToShrink(v *preempt.Candidate) int {
	at := v.Started + model.Instant(tunables.GiveAfter*elastic.RestartCost(v.Job))
	if m.WakeAt(at); v.Started == 0 || at > m.Now || v.Unsaved > preempt.MuchUnsaved {
		return -1
	}
	return 0
}

// reluctanceToRotate says how readily a candidate leaves for a job, as reluctance does. It leaves
// if it has had much, and much more than that job, and has no higher priority. It must be of the
// same account or of a fuller one. Where GPUs are shared, the jobs whose turn is over do not leave
// by what they have had: one leaves that keeps the rest of its GPU from being used.
func (m *preemptor) reluctanceToRotate(v *preempt.Candidate, w *rotationEntry, shared bool) int {
	if v.Surplus != nil {
		return m.reluctanceToShrink(v)
	}
	own := m.turnOf[v.Index]
	if !w.in {
		return -1
	}
	if !m.servedLong[v.Index] || own == nil || v.Job.Priority > w.job.Priority ||
		own.level < w.level+tunables.LevelsWorse || own.service < preempt.ServedLeast && !shared {
		return -1
	}
	mine, theirs := drf.Part(w.leaf, own.leaf)
	among := mine != nil && !mine.User
	if own.spared(w, shared) && !(among && holdsMore(theirs, mine)) || among && !own.fuller(theirs, w, mine) {
		return -1
	}
	return 0
}

// spared reports whether a job that should run itself keeps its room. A gang needs room of several
// at once, which one of them that comes among the first by a little could keep from it for long.
// Where GPUs are shared, it counts for more whether jobs fit beside each other.
func (w *rotationEntry) spared(o *rotationEntry, shared bool) bool {
	return w.in && !shared && o.job.Workers == 1
}

// holdsMore reports whether an account is fuller than another by what both hold now. If so, even
// those of its jobs leave that should run by what each has had: those that should not are often of
// emptier accounts, which keep their room, so that no job would leave.
func holdsMore(account, other *drf.Node) bool {
	return account.Saturation(nil).Compare(other.Saturation(nil)) > 0
}

// fuller reports whether the account of a job is fuller than another job's: by what both hold now,
// or by what each would hold with its jobs up to this one. By holdings alone an account whose jobs
// have all had much would keep its room against others that have had little.
func (w *rotationEntry) fuller(account *drf.Node, o *rotationEntry, other *drf.Node) bool {
	return holdsMore(account, other) || w.fullness(account).Compare(o.fullness(other)) > 0
}

// fullness returns how full an account or a user is with its jobs up to this one.
func (w *rotationEntry) fullness(n *drf.Node) drf.Ratio {
	r, known := w.full[n]
	if !known {
		r = n.Saturation(w.under[n].Minus(n.Held()))
		if w.full == nil {
			w.full = map[*drf.Node]drf.Ratio{}
		}
		w.full[n] = r
	}
	return r
}

// rotationOrder lists all best-effort jobs that run, or that wait and may start, in order. Of an
// array its next task waits. A job that asks for more than the nodes that are up could hold waits
// for other nodes, and for no turn.
func (m *preemptor) rotationOrder(f *fairshare.Accounts) []rotationEntry {
	var list []rotationEntry
	r := m.All()
	add := func(j *model.Job, level int, service int64, candidate int, group *groups.Group) {
		if level <= 0 {
			level, service = 0, 0
		}
		list = append(list, rotationEntry{job: j, level: level, service: service, candidate: candidate, group: group,
			leaf: f.Leaf(j.Association())})
	}
	for i, v := range r.Each() {
		if !v.Taken {
			service := m.serviceOf(v.Job, scratch.AttainedService(v.Job, v.Attempt, m.Now))
			add(v.Job, v.Job.ServiceLevelAt(service), service, i, nil)
		}
	}
	for g := range m.View.QueueGroups() {
		if g.Key.Held || g.Key.Class == jobspec.TE || !reserve.Holdable(m.State, g) {
			continue
		}
		var like served
		for _, j := range g.Jobs {
			if m.Started[j.ID] == 0 && !m.AwaitsVictims(j.ID) && m.startable(j) {
				level, service := m.serviceLevel(j, &like)
				add(j, level, service, -1, g)
			}
		}
	}
	slices.SortFunc(list, func(a, b rotationEntry) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), cmp.Compare(a.service, b.service),
			cmp.Compare(a.job.ID, b.job.ID))
	})
	countTurns(f, list)
	m.turnOf = make([]*rotationEntry, len(r.List))
	m.places = map[model.JobID]int{}
	for i := range list {
		w := &list[i]
		if w.candidate >= 0 {
			m.turnOf[w.candidate] = w
		} else if m.Holders[w.job.ID] != nil {
			m.places[w.job.ID] = i
		}
	}
	return list
}

// countTurns notes for each job what its account and user would hold with their jobs up to it.
func countTurns(f *fairshare.Accounts, list []rotationEntry) {
	sums := map[*drf.Node]drf.Amount{}
	for i := range list {
		w := &list[i]
		asks := f.Asks(w.job)
		w.under = map[*drf.Node]drf.Amount{}
		for n := w.leaf; n.Parent() != nil; n = n.Parent() {
			if sums[n] == nil {
				sums[n] = f.Amount(0, 0, 0)
			}
			sums[n] = sums[n].Plus(asks)
			w.under[n] = sums[n]
		}
	}
}

// admit marks the jobs that should run: the first that the cluster could hold beside
// trial-and-error jobs if it were one big node.
func (m *preemptor) admit(list []rotationEntry) {
	left := m.roomForBE()
	for i := range list {
		need := model.Request{Active: list[i].job.Total()}
		if fit.Within(need, left) {
			left = left.Minus(need)
			list[i].in = true
		}
	}
}

// roomForBE returns the room for best-effort jobs on nodes that are up.
func (m *preemptor) roomForBE() model.Request {
	defer m.Room.WaiveSoft()()
	r := m.All()
	var left model.Request
	for i := range m.View.Nodes() {
		if m.Room.Up(i) {
			left = left.Plus(m.Room.Free(i).Minus(fit.Both(m.Room.Claimed(i))).Plus(r.Draining[i]))
		}
	}
	for _, v := range r.Each() {
		for _, s := range v.Rooms {
			if !v.Taken && m.Room.Up(s.Node) {
				left = left.Plus(model.Request{Active: s.Room.Active})
			}
		}
	}
	return left
}
