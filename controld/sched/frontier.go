package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// frontier remembers which gangs failed, so that nothing that asks for as much or more is searched for again in the same cycle.
// That is sound as long as a cycle only takes room and frees none: whoever adds a phase that frees room must start a new one.
// Gangs that avoid nodes, or whose own claims make room, have a view of their own and are never added.
type frontier struct {
	failed  []fit.Gang // none asks for as much as another
	verdict map[cluster.Shape]bool
}

// fails reports whether a gang does not fit now, by what is known or by one search.
func (f *frontier) fails(room *fit.Room, g *fit.Gang) bool {
	if len(g.Exclude) > 0 {
		return f.covers(g) || !room.Fits(g)
	}
	s := g.Shape
	if failed, known := f.verdict[s]; known {
		return failed
	}
	if f.verdict == nil {
		f.verdict = make(map[cluster.Shape]bool)
	}
	failed := f.covers(g)
	if !failed && !room.Fits(g) {
		failed = true
		f.add(g)
	}
	f.verdict[s] = failed
	return failed
}

// covers reports whether g asks for at least as much as a gang that failed.
func (f *frontier) covers(g *fit.Gang) bool {
	for i := range f.failed {
		if atLeast(g, &f.failed[i]) {
			return true
		}
	}
	return false
}

// add records that g failed, and forgets those that fail because of it.
func (f *frontier) add(g *fit.Gang) {
	kept := f.failed[:0]
	for i := range f.failed {
		if !atLeast(&f.failed[i], g) {
			kept = append(kept, f.failed[i])
		}
	}
	f.failed = append(kept, *g)
}

// atLeast reports whether a gang is as hard to place as b in every respect, so that it fails where b does. Of a gang of several parts b
// nothing follows but for others with the same further parts; a fails as a whole with any part that is as hard as b.
func atLeast(a, b *fit.Gang) bool {
	if len(b.More) > 0 {
		return a.Shape.Parts == b.Shape.Parts && partAtLeast(&a.Part, &b.Part)
	}
	if partAtLeast(&a.Part, &b.Part) {
		return true
	}
	for i := range a.More {
		if partAtLeast(&a.More[i], &b.Part) {
			return true
		}
	}
	return false
}

func partAtLeast(a, b *fit.Part) bool {
	x, y := &a.Request, &b.Request
	return a.Workers >= b.Workers && a.PerNode <= b.PerNode &&
		x.Active.GPUs >= y.Active.GPUs && x.Active.Cores >= y.Active.Cores && x.Active.Memory >= y.Active.Memory &&
		x.Resident.GPUs >= y.Resident.GPUs && x.Resident.Cores >= y.Resident.Cores && x.Resident.Memory >= y.Resident.Memory &&
		(x.Exclusive || !y.Exclusive) && choosier(a, b)
}

// choosier reports whether every node that a wants is one that b wants.
func choosier(a, b *fit.Part) bool {
	switch {
	case b.Nodes == nil || a.Where == b.Where:
		return true
	case a.Nodes == nil:
		return false
	}
	for i, word := range a.Nodes {
		if word&^b.Nodes[i] != 0 {
			return false
		}
	}
	return true
}
