package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
)

// glance tells of most groups of a long queue, by their fronts alone, that order would find them blocked and have nothing to note: the first
// job may start, its shape is known not to fit, and another of its account that is blocked goes before it. Whatever is not as plain as that
// is left to order, so a plan does not depend on it.
type glance struct {
	trial  *trial
	passed int   // groups
	apart  idSet // jobs that do not stand in line as their groups do

	known   bool   // there is a blocked job of the account asked about last
	account string // that one
	changes int    // of the line's blocked jobs when the rank was taken
	rank    rank   // of the first blocked one
}

// rank is what trial.compare goes by.
type rank struct {
	class, first, priority, level int
	job                           cluster.JobID
}

func (r *rank) compare(o *rank) int {
	return cmp.Or(cmp.Compare(r.class, o.class), cmp.Compare(r.first, o.first), cmp.Compare(o.priority, r.priority), cmp.Compare(r.level, o.level),
		cmp.Compare(r.job, o.job))
}

// rankOf returns the rank of a job.
func (t *trial) rankOf(j *cluster.Job) rank {
	r := rank{class: classRank(j.Class), first: firstRank(j), priority: j.Priority, job: j.ID}
	if t.byService {
		r.level = t.levelOf(j)
	}
	return r
}

// newGlance returns nil where limits make it a question of its own whether a job may start.
func newGlance(t *trial) *glance {
	if t.byService && (t.limited() || t.policy.TEAccountGPUs > 0) {
		return nil
	}
	q := &glance{trial: t}
	for id := range t.holders {
		q.apart.add(id)
	}
	for id := range t.late {
		q.apart.add(id)
	}
	return q
}

// blocked reports whether a group has nothing to say in order.
func (q *glance) blocked(l *line, f *cluster.Front) bool {
	if q == nil || !f.Plain || f.Eligible > q.trial.now || q.trial.byService && f.Level != 0 || q.apart.has(f.Job) || !l.seen.knownToFail(int(f.Shape)) {
		return false
	}
	if !q.recall(l, f.Account) {
		return false
	}
	r := rank{class: 1, first: 1, priority: f.Priority, job: f.Job}
	if f.TE {
		r.class = 0
	}
	if q.rank.compare(&r) > 0 {
		return false
	}
	q.passed++
	return true
}

// recall sees to it that the rank is that of the first blocked job of an account, and reports whether there is one.
func (q *glance) recall(l *line, account string) bool {
	if q.known && q.account == account && q.changes == l.changes {
		return true
	}
	first := l.first[account]
	if q.known = first != nil; q.known {
		q.account, q.changes, q.rank = account, l.changes, q.trial.rankOf(first)
	}
	return q.known
}

// idSet is a set of a few ids. It may have others, but hardly any.
type idSet [16]uint64

func (s *idSet) add(id cluster.JobID) { s[uint64(id)/64%16] |= 1 << (uint64(id) % 64) }

func (s *idSet) has(id cluster.JobID) bool { return s[uint64(id)/64%16]&(1<<(uint64(id)%64)) != 0 }
