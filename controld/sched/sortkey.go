package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// compare orders jobs by class, priority and age. Within a class a job comes first that has left its room to another which then did not use it.
// The order is total: the id, which grows with age, decides last.
func compare(a, b *cluster.Job) int {
	return cmp.Or(
		cmp.Compare(classRank(a.Class), classRank(b.Class)),
		firstRank(a)-firstRank(b),
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(a.ID, b.ID))
}

// firstRank is 0 for a job that comes first in its class, else 1.
func firstRank(j *cluster.Job) int {
	if j.First {
		return 0
	}
	return 1
}

// classRank is 0 for trial-and-error jobs, 1 for best-effort jobs.
func classRank(c jobspec.Class) int {
	if c == jobspec.TE {
		return 0
	}
	return 1
}

// sortKey is what decides the place of a job in the order. The zero value means: no job.
type sortKey struct {
	class, first, priority, level int
	job                           cluster.JobID
}

func (k *sortKey) compare(o *sortKey) int {
	switch {
	case k.class != o.class:
		return cmp.Compare(k.class, o.class)
	case k.first != o.first:
		return cmp.Compare(k.first, o.first)
	case k.priority != o.priority:
		return cmp.Compare(o.priority, k.priority)
	case k.level != o.level:
		return cmp.Compare(k.level, o.level)
	}
	return cmp.Compare(k.job, o.job)
}

// keyOf returns the sort key of a job by the function compare.
func keyOf(j *cluster.Job) sortKey {
	return sortKey{class: classRank(j.Class), first: firstRank(j), priority: j.Priority, job: j.ID}
}

// keep replaces the key by another one that comes before it, and reports whether it did.
func (k *sortKey) keep(o sortKey) bool {
	if k.job != 0 && k.compare(&o) <= 0 {
		return false
	}
	*k = o
	return true
}

// firsts holds the sort key of the first of some jobs of each account, or of each leaf of the account tree.
type firsts[K comparable] map[K]*sortKey

// of returns the key for an account or a leaf, the zero key if there is none yet.
func (m firsts[K]) of(k K) *sortKey {
	r := m[k]
	if r == nil {
		r = &sortKey{}
		m[k] = r
	}
	return r
}
