package queue

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Compare orders jobs by class, priority and age. Within a class a job comes first that has left
// its room to another which then did not use it. The order is total: the id, which grows with age,
// decides last.
func Compare(a, b *model.Job) int {
	x, y := KeyOf(a), KeyOf(b)
	return x.compare(&y)
}

// FirstRank is 0 for a job that comes first in its class, else 1.
func FirstRank(j *model.Job) int {
	if j.OwnRoomFirst {
		return 0
	}
	return 1
}

// ClassRank is 0 for trial-and-error jobs, 1 for best-effort jobs.
func ClassRank(c jobspec.Class) int {
	if c == jobspec.TE {
		return 0
	}
	return 1
}

// Key is the sort key of a job in the order. The zero value means: no job.
type Key struct {
	class, first, priority int
	Job                    model.JobID
}

func (k *Key) compare(o *Key) int {
	return cmp.Or(cmp.Compare(k.class, o.class), cmp.Compare(k.first, o.first), cmp.Compare(o.priority, k.priority),
		cmp.Compare(k.Job, o.Job))
}

// KeyOf returns the sort key of a job by the function compare.
func KeyOf(j *model.Job) Key {
	return Key{class: ClassRank(j.Class), first: FirstRank(j), priority: int(j.Priority), Job: j.ID}
}

// Keep replaces the key by another one that sorts before it, and reports whether it did.
func (k *Key) Keep(o Key) bool {
	if k.Job != 0 && k.compare(&o) <= 0 {
		return false
	}
	*k = o
	return true
}

// Firsts holds the sort key of the first of some jobs of each account, or of each leaf of the
// account tree.
type Firsts[K comparable] map[K]*Key

// Of returns the key for an account or a leaf, the zero key if there is none yet.
func (m Firsts[K]) Of(k K) *Key {
	r := m[k]
	if r == nil {
		r = &Key{}
		m[k] = r
	}
	return r
}
