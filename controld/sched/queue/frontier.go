package queue

import (
	"slices"

	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Frontier remembers which gangs failed, so that nothing that asks for as much or more is searched
// for again in the same cycle. That is sound as long as a cycle only takes room and frees none: a
// phase that frees room must start a new one. Gangs that avoid nodes, or whose own claims make
// room, have a view of their own and are never added.
type Frontier struct {
	failed []fit.Gang // none asks for as much as another
	shapes []verdict  // by number
	fit    []fitted   // those that were found to fit
}

// fitted is a gang of a shape that was found to fit.
type fitted struct {
	shape int
	gang  fit.Gang
}

// verdict is whether a shape has been found to fail.
type verdict uint8

const (
	unknown verdict = iota
	fits
	fails
)

// Fails reports whether the first job of a group does not fit now, by earlier results or by one
// search.
func (f *Frontier) Fails(t *scratch.State, c *Contender) bool {
	if len(c.Job.Exclude) > 0 {
		g := c.Gang(t)
		return f.Covers(g) || !t.Room.Fits(g)
	}
	n := c.Group.Number
	for n >= len(f.shapes) {
		f.shapes = append(f.shapes, make([]verdict, max(64, n))...)
	}
	if f.shapes[n] == unknown {
		g := c.Gang(t)
		if f.shapes[n] = f.search(t, g); f.shapes[n] == fits {
			f.fit = append(f.fit, fitted{n, *g})
		}
	}
	return f.shapes[n] == fails
}

// Fail records that g failed, and which of the shapes that were found to fit fail because of it.
func (f *Frontier) Fail(g *fit.Gang) {
	f.add(g)
	f.fit = slices.DeleteFunc(f.fit, func(k fitted) bool {
		failed := atLeast(&k.gang, g)
		if failed {
			f.shapes[k.shape] = fails
		}
		return failed
	})
}

// FailedSince reports whether the first job of a group that was found to fit is known to fail by
// now.
func (f *Frontier) FailedSince(t *scratch.State, c *Contender) bool {
	if n := c.Group.Number; len(c.Job.Exclude) == 0 && n < len(f.shapes) && f.shapes[n] != unknown {
		return f.shapes[n] == fails
	}
	return f.Covers(c.Gang(t))
}

func (f *Frontier) search(t *scratch.State, g *fit.Gang) verdict {
	if f.Covers(g) {
		return fails
	}
	if !t.Room.Fits(g) {
		f.add(g)
		return fails
	}
	return fits
}

// Try starts a gang, unless it is known to fail. It reports whether that succeeded, and records if
// not that the gang fails.
func (f *Frontier) Try(g *fit.Gang, start func() bool) bool {
	if f.Covers(g) {
		return false
	}
	if start() {
		return true
	}
	if len(g.Exclude) == 0 {
		f.add(g)
	}
	return false
}

// Covers reports whether g asks for at least as much as a gang that failed.
func (f *Frontier) Covers(g *fit.Gang) bool {
	for i := range f.failed {
		if atLeast(g, &f.failed[i]) {
			return true
		}
	}
	return false
}

// add records that g failed, and forgets those that fail because of it.
func (f *Frontier) add(g *fit.Gang) {
	f.failed = slices.DeleteFunc(f.failed, func(o fit.Gang) bool { return atLeast(&o, g) })
	f.failed = append(f.failed, *g)
}

// atLeast reports whether a gang is as hard to place as b in every respect, so that it fails where
// b does. If b has several parts, only gangs with the same further parts are compared with it. If b
// has one part, a fails as a whole with any part that is as hard as b.
func atLeast(a, b *fit.Gang) bool {
	if len(b.More) > 0 {
		return a.Shape.Parts == b.Shape.Parts && partAtLeast(&a.Component, &b.Component)
	}
	return partAtLeast(&a.Component, &b.Component) ||
		slices.ContainsFunc(a.More, func(p fit.Component) bool { return partAtLeast(&p, &b.Component) })
}

func partAtLeast(a, b *fit.Component) bool {
	return a.Workers >= b.Workers && a.PerNode <= b.PerNode && fit.Covers(a.Request, b.Request) &&
		(a.Request.Exclusive || !b.Request.Exclusive) && choosier(a, b)
}

// choosier reports whether b wants every node that a wants.
func choosier(a, b *fit.Component) bool {
	switch {
	case b.Nodes == nil || a.Constraints == b.Constraints:
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

// knownToFail reports whether a shape, by its number, is known to fail.
func (f *Frontier) knownToFail(shape int) bool {
	return shape < len(f.shapes) && f.shapes[shape] == fails
}
