package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
)

// rank is what compare goes by.
type rank struct {
	class, first, priority, level int
	job                           cluster.JobID
}

func (r *rank) compare(o *rank) int {
	return cmp.Or(cmp.Compare(r.class, o.class), cmp.Compare(r.first, o.first), cmp.Compare(o.priority, r.priority), cmp.Compare(r.level, o.level),
		cmp.Compare(r.job, o.job))
}

// rankOf returns the rank of a job by the function compare.
func rankOf(j *cluster.Job) rank {
	return rank{class: classRank(j.Class), first: firstRank(j), priority: j.Priority, job: j.ID}
}

// rankOf returns the rank of a job by trial.compare.
func (t *trial) rankOf(j *cluster.Job) rank {
	r := rankOf(j)
	if t != nil && t.byService {
		r.level = t.levelOf(j)
	}
	return r
}

// foremost is the first of some jobs of an account, or of a leaf.
type foremost struct {
	job  *cluster.Job // nil: there is none yet
	rank rank
}

// add adds a job and reports whether it comes before those added earlier.
func (f *foremost) add(j *cluster.Job, r rank) bool {
	if f.job != nil && f.rank.compare(&r) <= 0 {
		return false
	}
	f.job, f.rank = j, r
	return true
}

// foremosts has one for each account, or for each leaf.
type foremosts[K comparable] map[K]*foremost

func (m foremosts[K]) of(k K) *foremost {
	f := m[k]
	if f == nil {
		f = &foremost{}
		m[k] = f
	}
	return f
}

// glance tells of most groups of a long queue, by their fronts alone, that whoever looks for the first jobs of accounts or of leaves has nothing
// to note there: the first job may start, and the first of its account or leaf that was found so far goes before it. Where only blocked
// jobs are looked for its shape must be known not to fit, too. Whatever is not as plain as that has to be looked at, so a plan does not depend on it.
type glance struct {
	trial  *trial
	seen   *frontier                      // nil: jobs are looked for whether they fit or not
	whose  func(*cluster.Group) *foremost // that of a group's account or leaf
	known  []*foremost                    // the same, by the number of the leaf
	apart  idSet                          // jobs that do not stand in line as their groups do, and some others
	passed int                            // groups
}

// newGlance returns nil where limits make it a question of its own whether a job may start.
func newGlance(t *trial, seen *frontier, whose func(*cluster.Group) *foremost) *glance {
	if t.byService && (t.limited() || t.policy.TEAccountGPUs > 0) {
		return nil
	}
	q := &glance{trial: t, seen: seen, whose: whose}
	for id := range t.holders {
		q.apart.add(id)
	}
	for id := range t.late {
		q.apart.add(id)
	}
	for id := range t.started {
		q.apart.add(id)
	}
	return q
}

// passes reports whether there is nothing to note of a group.
func (q *glance) passes(at int64, f *cluster.Front) bool {
	if q == nil || !f.Plain || f.Eligible > q.trial.now || q.trial.byService && f.Level != 0 || q.seen != nil && !q.seen.knownToFail(int(f.Shape)) {
		return false
	}
	first := q.firstAt(at, f)
	if first.job == nil {
		return false
	}
	r := rank{class: 1, first: 1, priority: f.Priority, job: f.Job}
	if f.TE {
		r.class = 0
	}
	if first.rank.compare(&r) > 0 || q.apart.has(f.Job) && q.standsApart(f.Job) {
		return false
	}
	q.passed++
	return true
}

// firstAt returns the first job of a group's account or leaf.
func (q *glance) firstAt(at int64, f *cluster.Front) *foremost {
	for int(f.Leaf) >= len(q.known) {
		q.known = append(q.known, make([]*foremost, max(64, len(q.known)))...)
	}
	first := q.known[f.Leaf]
	if first == nil {
		first = q.whose(q.trial.view.GroupAt(at))
		q.known[f.Leaf] = first
	}
	return first
}

// standsApart reports whether a job has started, is given up, or holds a reservation.
func (q *glance) standsApart(id cluster.JobID) bool {
	return q.trial.started[id] > 0 || q.trial.late[id] || q.trial.holders[id] != nil
}

// idSet is a set of a few ids. It may have others, but hardly any.
type idSet [16]uint64

func (s *idSet) add(id cluster.JobID) { s[uint64(id)/64%16] |= 1 << (uint64(id) % 64) }

func (s *idSet) has(id cluster.JobID) bool { return s[uint64(id)/64%16]&(1<<(uint64(id)%64)) != 0 }
