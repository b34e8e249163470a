package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
)

// rank is what compare goes by. The zero value is nobody's.
type rank struct {
	class, first, priority, level int
	job                           cluster.JobID
}

func (r *rank) compare(o *rank) int {
	switch {
	case r.class != o.class:
		return cmp.Compare(r.class, o.class)
	case r.first != o.first:
		return cmp.Compare(r.first, o.first)
	case r.priority != o.priority:
		return cmp.Compare(o.priority, r.priority)
	case r.level != o.level:
		return cmp.Compare(r.level, o.level)
	}
	return cmp.Compare(r.job, o.job)
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

// keep makes this the rank of another job if that comes before the one whose it was, and reports whether it does.
func (r *rank) keep(o rank) bool {
	if r.job != 0 && r.compare(&o) <= 0 {
		return false
	}
	*r = o
	return true
}

// firsts has the rank of the first of some jobs of each account, or of each leaf.
type firsts[K comparable] map[K]*rank

func (m firsts[K]) of(k K) *rank {
	r := m[k]
	if r == nil {
		r = &rank{}
		m[k] = r
	}
	return r
}

// glance finds the first jobs of accounts or of leaves by the fronts of their groups alone, where these say it all: the first job of a group may
// start, and only its rank counts. If blocked jobs are looked for its shape must be known not to fit, too. Whatever is not as plain as
// that has to be looked at, so a plan does not depend on it.
type glance struct {
	trial  *trial
	seen   *frontier                  // nil: jobs are looked for whether they fit or not
	whose  func(*cluster.Group) *rank // that of the first job of a group's account or leaf; nil: a limit makes it a question of its own who may start
	known  []owner                    // the same, by the number of the leaf
	apart  idSet                      // jobs that do not stand in line as their groups do, and some others
	passed int                        // groups
}

// owner is what a glance knows of a leaf.
type owner struct {
	met   bool
	first *rank
}

func newGlance(t *trial, seen *frontier, whose func(*cluster.Group) *rank) *glance {
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

// does sees to a group by its front, and reports whether that was enough.
func (q *glance) does(at int64, f *cluster.Front) bool {
	if q == nil || !f.Plain || f.Eligible > q.trial.now || q.seen != nil && !q.seen.knownToFail(int(f.Shape)) || q.apart.has(f.Job) && q.standsApart(f.Job) {
		return false
	}
	if q.trial.byService && (f.Level != 0 || f.Gang && !f.TE || f.TE && q.trial.policy.TEAccountGPUs > 0) {
		return false
	}
	first := q.firstAt(at, f)
	if first == nil {
		return false
	}
	r := rank{class: 1, first: 1, priority: f.Priority, job: f.Job}
	if f.TE {
		r.class = 0
	}
	first.keep(r)
	q.passed++
	return true
}

// firstAt returns the rank of the first job of a group's account or leaf, nil if each of them has to be looked at.
func (q *glance) firstAt(at int64, f *cluster.Front) *rank {
	for int(f.Leaf) >= len(q.known) {
		q.known = append(q.known, make([]owner, max(64, len(q.known)))...)
	}
	o := &q.known[f.Leaf]
	if !o.met {
		*o = owner{true, q.whose(q.trial.view.GroupAt(at))}
	}
	return o.first
}

// standsApart reports whether a job has started, is given up, or holds a reservation.
func (q *glance) standsApart(id cluster.JobID) bool {
	return q.trial.started[id] > 0 || q.trial.late[id] || q.trial.holders[id] != nil
}

// idSet is a set of a few ids. It may have others, but hardly any.
type idSet [16]uint64

func (s *idSet) add(id cluster.JobID) { s[uint64(id)/64%16] |= 1 << (uint64(id) % 64) }

func (s *idSet) has(id cluster.JobID) bool { return s[uint64(id)/64%16]&(1<<(uint64(id)%64)) != 0 }
