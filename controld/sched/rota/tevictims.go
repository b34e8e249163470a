package rota

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/jobspec"
)

// # The victims of a trial-and-error job
//
// A trial-and-error (TE) job takes the room of best-effort jobs. Jobs of its own account come
// first, then those of accounts above their shares, and last the jobs of any account. An account
// with a quota lends no more of it than a small part (te_borrow), but one job in any case. An
// account has lent the room of those of its jobs that wait because a TE job of another account took
// it. Accounts without a quota lend without a bound.
//
// That holds for as long as TE jobs may run. An account that has been put out for longer
// loses nothing more that is within its share.
//
// The choice, from the top down:
//
//   - serveTE (rota.go) goes through the TE jobs that wait.
//   - preemptForTE tries the job's own account alone, then all accounts.
//   - reluctanceFor gives each candidate a degree, -1 for never: how unwelcome the victim is
//     (reluctance), and below that whose it is (tier).
//   - preempt tries the degrees one after another. In each, affordable asks package preempt for the
//     cheapest set, and repairs it until every account lends what the set takes.
//   - carryOut (rota.go) keeps the room and asks the victims to leave.

const (
	tiers = 3
)

// Tiers of candidates, by their account.
const (
	ofOwn    = iota // of the job's own account
	ofAbove         // of an account above its share
	ofLender        // of any other
)

// preemptForTE is preempt for a trial-and-error job. It first tries jobs of the job's own account
// that can be taken at once, since for these no account's holdings have to be computed.
func (m *preemptor) preemptForTE(j *model.Job, g *fit.Gang) bool {
	rest := allDegrees
	if !nested(m.state.View.Config()) {
		if m.preempt(j, g, model.CauseTE, m.reluctanceOf(j.Account), 1<<ofOwn) {
			return true
		}
		rest &^= 1 << ofOwn
	}
	return m.preempt(j, g, model.CauseTE, m.reluctanceFor(j), rest)
}

// reluctance says how readily a candidate may be taken for a trial-and-error job. 0 means at once,
// 1 if nothing else helps, 2 only when degree 1 does not help either, -1 never. Candidates that
// lose all their work have three degrees of their own, after all others.
func (m *preemptor) reluctance(v *preempt.Candidate) int {
	degree := m.reluctanceOfSaver(v)
	if degree >= 0 && !v.Pauses && preempt.CannotSave(v) {
		degree += 3
	}
	return degree
}

func (m *preemptor) reluctanceOfSaver(v *preempt.Candidate) int {
	switch {
	case v.Surplus != nil && preempt.Wasteful(m.state, v.Job), v.Surplus == nil && !m.mayDisplaceRunning(v):
		return -1
	case m.state.Now-v.Undisturbed() < fairshare.MinRuntime(m.state):
		if v.Surplus == nil && m.rota.gathered(v.Job, v.Since, len(v.Rooms)) {
			return -1
		}
		return 2
	case v.Unsaved > preempt.MuchUnsaved, isWide(v):
		return 1
	}
	return 0
}

// reluctanceFor returns how readily candidates may be taken for a trial-and-error job: each degree
// of reluctance is divided by the account that they are of. Accounts' holdings are computed only if
// another account has jobs that could leave.
func (m *preemptor) reluctanceFor(j *model.Job) func(*preempt.Candidate) int {
	var known []int // by the account's number in Candidates: the tier and one more
	return func(v *preempt.Candidate) int {
		degree := m.reluctance(v)
		if degree < 0 {
			return -1
		}
		if known == nil {
			known = make([]int, len(m.search.Candidates.Accounts.List))
		}
		// The tier is the same for all jobs of an account, and costly to find: so it is kept by account.
		if known[v.Account] == 0 {
			known[v.Account] = 1 + m.tier(j, v.Job)
		}
		if known[v.Account]-1 == ofLender && m.rota.putOut[v.Job.Account] {
			return -1
		}
		return degree*tiers + known[v.Account] - 1
	}
}

// reluctanceOf is reluctanceFor as long as only candidates of the job's own account come into
// question that may be taken at once.
func (m *preemptor) reluctanceOf(account string) func(*preempt.Candidate) int {
	return func(v *preempt.Candidate) int {
		if m.reluctance(v) != 0 || m.search.Candidates.Accounts.List[v.Account] != account {
			return -1
		}
		return ofOwn
	}
}

// nested reports whether an account is within another.
func nested(cfg *cluster.Config) bool {
	for _, a := range cfg.Accounts {
		if a.Parent != "" {
			return true
		}
	}
	return false
}

// tier says of which account a running job is.
func (m *preemptor) tier(j, running *model.Job) int {
	if running.Account == j.Account {
		return ofOwn
	}
	// Above its share counts at every level below the one where the two accounts part.
	f := m.rota.accounts()
	f.Foresee()
	mine, theirs := drf.Part(f.Leaf(j.Association()).Parent(), f.Account(running.Account))
	if mine == nil { // one account is within the other
		return ofOwn
	}
	for n := f.Account(running.Account); n != theirs.Parent(); n = n.Parent() {
		if !n.Above() {
			return ofLender
		}
	}
	return ofAbove
}

// affordable finds the cheapest set of victims that no account may refuse to lose, nil if there is
// none. The algorithm is search and repair. If the cheapest set takes more than an account lends,
// the search runs again without the dearest victim of that account. The set that is found then need
// not be the cheapest. After maxRepairs searches whole accounts are left out in place of single
// victims, since an account that still refuses has many cheap jobs. If nothing is found then, the
// job is told that no job can be asked to leave. It runs at most 2 x maxRepairs + 1 searches.
func (m *preemptor) affordable(j *model.Job, q preempt.Question, cause model.Cause) *preempt.Set {
	lifted := m.lift(j, cause)
	defer lifted.Restore()
	for tries := range 2*maxRepairs + 1 {
		// Only what TE jobs take needs the consent of the accounts: other causes have judged each
		// candidate before.
		set := m.search.Cheapest(q)
		if set == nil || cause != model.CauseTE {
			return set
		}
		dearest := m.refused(&q, set)
		if dearest < 0 {
			set.Inexact = set.Inexact || tries > 0
			return set
		}
		if tries < maxRepairs {
			q = q.Bar(dearest)
		} else {
			q = q.Bar(m.allOf(m.search.Candidates.List[dearest].Account)...)
		}
	}
	return nil
}

// allOf returns all candidates of an account, by number.
func (m *preemptor) allOf(account int32) (list []int32) {
	for i, v := range m.search.Candidates.Each() {
		if v.Account == account {
			list = append(list, int32(i))
		}
	}
	return list
}

// refused returns the dearest victim, by number, that its account does not lend; -1 if all accounts
// lend what a set takes.
func (m *preemptor) refused(q *preempt.Question, set *preempt.Set) int32 {
	// Which accounts lose, and what; of its own account the job may take anything.
	r := m.search.Candidates
	r.DropPartial(set)
	workers := m.search.ChooseWorkers(q, set) // to see how much elastic jobs lose
	losses := map[string][]int32{}
	for _, i := range set.Candidates {
		if account := r.List[i].Job.Account; int(q.Reluctance[i])%tiers != ofOwn {
			losses[account] = append(losses[account], i)
		}
	}
	worst := int32(-1)
	for account, lost := range losses {
		if m.lends(account, lost, workers) {
			continue
		}
		for _, i := range lost {
			if worst < 0 || preempt.Compare(&r.List[worst], &r.List[i]) < 0 {
				worst = i
			}
		}
	}
	return worst
}

// lends reports whether an account may lose some of its jobs to trial-and-error jobs of others. It
// may if it has no quota, or if it stays above its share until the last job leaves. It also may if
// all its loans stay within te_borrow. An account that has been put out keeps its share.
func (m *preemptor) lends(account string, lost []int32, workers preempt.LeavingWorkers) bool {
	f := m.rota.accounts()
	n := f.Account(account)
	if !n.Guaranteed() && !m.rota.putOut[account] {
		return true
	}
	// sum is what it loses in all, largest the victim that leaves last.
	sum, largest := f.Amount(0, 0, 0), f.Amount(0, 0, 0)
	for _, i := range lost {
		a := m.losing(&m.search.Candidates.List[i], workers[i])
		if sum = sum.Plus(a); partOf(n, a).Cmp(partOf(n, largest)) > 0 {
			largest = a
		}
	}
	if m.rota.putOut[account] {
		return n.Holding(sum.Negative()).Cmp(n.Share()) >= 0
	}
	// Above its share until the last victim leaves, it loses nothing that it is entitled to.
	before := n.Holding(largest.Minus(sum))
	if before.Cmp(n.Share()) > 0 && before.Cmp(n.Due()) > 0 {
		return true
	}
	// Else it lends: what it has lent already and this loss together are within te_borrow, or this is
	// the one job that every account lends.
	lent, jobs := m.lent(account)
	part := cmp.Or(m.state.Policy.TEBorrowPM, borrowPM)
	if part < 0 {
		return false
	}
	if jobs == 0 && len(lost) == 1 {
		return true
	}
	return partOf(n, lent.Plus(sum)).Cmp(n.DuePart(part)) <= 0
}

// losing returns what an account loses with a victim, of an elastic job some workers.
func (m *preemptor) losing(v *preempt.Candidate, workers []int) drf.Amount {
	if v.Surplus == nil {
		return m.rota.accounts().HeldBy(v.Job, v.Attempt)
	}
	return m.elasticAmount(v.Job, len(workers))
}

// elasticAmount returns what so many elastic workers of a job hold.
func (m *preemptor) elasticAmount(j *model.Job, workers int) drf.Amount {
	terms, _ := j.Elastic()
	r := j.RequestOf(terms.First).Times(workers).Active
	return m.rota.accounts().AmountOf(r)
}

// partOf returns the dominant part of the live cluster that an amount is, over the resources that
// count for a node.
func partOf(n *drf.TreeNode, a drf.Amount) drf.Fraction {
	return n.Holding(a.Minus(n.Held()))
}

// lent returns the room that an account has lent to trial-and-error jobs of others, and from how
// many of its jobs. Jobs that wait or are leaving because of such a job count with all that they
// held. Elastic jobs that go on count with the workers that they gave up.
func (m *preemptor) lent(account string) (drf.Amount, int) {
	f := m.rota.accounts()
	sum, jobs := f.Amount(0, 0, 0), 0
	add := func(taker model.JobID, lost drf.Amount) {
		if o := m.state.View.Job(taker); o != nil && o.Class == jobspec.TE && o.Account != account && !o.State.Final() {
			sum, jobs = sum.Plus(lost), jobs+1
		}
	}
	// 1. Jobs that wait because they left for a trial-and-error job that is not over.
	for g := range m.state.View.QueueGroups() {
		if g.Key.Account != account {
			continue
		}
		for _, j := range g.Jobs {
			if j.Reason.Code == model.ReasonPreempted {
				add(j.Reason.For, f.Asks(j))
			}
		}
	}
	// 2. Jobs that are leaving or pausing for one, and elastic jobs that go on with fewer workers.
	for j := range m.state.View.Live() {
		if j.Account == account {
			m.lentBy(j, add)
		}
	}
	return sum, jobs
}

// lentBy yields what a job that runs has given up, or is giving up, and the job that takes it.
func (m *preemptor) lentBy(j *model.Job, yield func(taker model.JobID, lost drf.Amount)) {
	// Earlier attempts count if the job shrank after them, the live one if it gives up room now.
	last := len(j.Attempts) - 1
	for i := range last {
		if a := &j.Attempts[i]; a.Cause == model.CauseShrink && a.Stop != nil &&
			len(a.Workers) > len(j.Attempts[i+1].Workers) {
			yield(a.Stop.For, m.elasticAmount(j, len(a.Workers)-len(j.Attempts[i+1].Workers)))
		}
	}
	a := &j.Attempts[last]
	switch taker, asked := m.state.Stopping[j.ID]; {
	case a.Shrinking():
		yield(a.Shrink.For, m.elasticAmount(j, len(a.Workers)-a.Staying()))
	case a.Stop != nil && a.Stop.Resize != nil:
		yield(a.Stop.For, m.elasticAmount(j, len(a.Stop.Resize.Leave)))
	case a.Stop == nil && (a.Suspending() || a.Suspended()):
		if s := a.Switch; s.Cause == model.CauseTE {
			yield(s.For, m.rota.accounts().HeldBy(j, active(a)))
		}
	case a.Stop != nil && a.Stop.Cause == model.CauseTE:
		yield(a.Stop.For, m.rota.accounts().HeldBy(j, a))
	case asked:
		yield(taker, m.asked(j))
	}
}

// active returns an attempt as if it ran: not suspended.
func active(a *model.Attempt) *model.Attempt {
	runs := *a
	runs.Switch = nil
	return &runs
}

// asked returns the room that a job was asked to give up in this cycle.
func (m *preemptor) asked(j *model.Job) drf.Amount {
	for _, a := range m.state.Actions {
		if r, ok := a.(*fsm.ResizeJob); ok && r.Job == j.ID {
			return m.elasticAmount(j, len(r.Leave))
		}
	}
	return m.rota.accounts().HeldBy(j, j.Live())
}

// noteInexact marks the victims of a set in the plan if the set is not proven to be the cheapest.
// The log has a word for that in stops and resizes only.
func (m *preemptor) noteInexact(set *preempt.Set) {
	if !set.Inexact {
		return
	}
	for i := len(m.state.Actions) - len(set.Candidates); i < len(m.state.Actions); i++ {
		switch a := m.state.Actions[i].(type) {
		case *fsm.StopJob:
			a.Inexact = true
		case *fsm.ResizeJob:
			a.Inexact = true
		}
	}
}
