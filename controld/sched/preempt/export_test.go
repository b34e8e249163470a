package preempt

import (
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Names for tests, which are in a package of their own.

// The units of costs.
const (
	Dear = dear
	One  = one
)

// NodeWeight is the price of each node beyond the first.
var NodeWeight = tunables.NodeWeight

// Part returns a / b as a fixed-point number.
func Part(a, b float64) int64 { return part(a, b) }

// WorkersIn returns how many workers of a part some room holds.
var WorkersIn = workersIn

// Alternative returns the number, from 1, of the other entry of the same job; 0: there is none.
func (v *Candidate) Alternative() int32 { return v.alternative }

// Cycle returns the scratch state of the cycle.
func (m *Preemptor) Cycle() *scratch.State { return m.state }

// Frees reports whether a set makes room for a gang.
func (m *Preemptor) Frees(set *Set, g *fit.Gang) bool {
	_, ok := m.freed(set, g)
	return ok
}

// SharedCheapest returns the cheapest set on one node, GPU by GPU.
func (m *Preemptor) SharedCheapest(g *fit.Gang) *Set { return m.sharedCheapest(Question{Gang: g}) }

// PassedOver reports whether a node is passed over by its GPUs alone.
func (s *search) PassedOver(node int, p *fit.Component, bound int64) bool {
	return s.shut(node, p) && s.leastOn(node, bound) == bound
}

// Offers reports whether a node offers something cheaper than a bound.
func (s *search) Offers(p *fit.Component, node int, bound int64) bool {
	_, ok := s.offer(p, node, bound)
	return ok
}
