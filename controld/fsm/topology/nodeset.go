// Package topology finds the nodes that meet the constraints and affinities of a job. It reads
// their canonical text, keeps the set of nodes for each, and names the nearest node if none meets
// them.
package topology

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// MaxNodeSets bounds the different conditions on nodes, and wishes about them, of all waiting jobs:
// for each the state keeps a set of nodes.
const MaxNodeSets = 16_384

// AffinityLevel is nodes that a job likes equally: bit i of Nodes is set for the node at position
// i. It never changes.
type AffinityLevel struct {
	Score int
	Nodes []uint64
}

// NodeSet is what a Where or a Prefer means on the nodes there are. It never changes: what changes
// the nodes makes new ones.
type NodeSet struct {
	where  where
	prefer prefer
	Levels []AffinityLevel // best first; of a Where the only one has the nodes on which it holds
}

// NewNodeSet parses a text that checkWhere has accepted. The two kinds tell themselves apart: a
// Prefer begins with a number.
func NewNodeSet(text string, nodes []*model.Node) *NodeSet {
	s := &NodeSet{}
	if strings.ContainsAny(text[:1], "-0123456789") {
		s.prefer, _ = parsePrefer(text)
	} else {
		s.where, _ = ParseWhere(text)
	}
	var facts jobspec.NodeFacts
	words := (len(nodes) + 63) / 64
	for i, n := range nodes {
		SetFacts(&facts, n)
		if score, in := s.Score(&facts); in {
			level := s.level(score, words)
			level.Nodes[i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// Score returns the level of a node, and false if it is in none.
func (s *NodeSet) Score(n *jobspec.NodeFacts) (int, bool) {
	if s.prefer != nil {
		return s.prefer.score(n), true
	}
	return 0, s.where.holds(n)
}

// level returns the level with a score, which is added if there is none. Only for sites that no
// view has yet.
func (s *NodeSet) level(score, words int) *AffinityLevel {
	i, found := slices.BinarySearchFunc(s.Levels, score,
		func(l AffinityLevel, score int) int { return cmp.Compare(score, l.Score) })
	if !found {
		s.Levels = slices.Insert(s.Levels, i, AffinityLevel{score, make([]uint64, words)})
	}
	return &s.Levels[i]
}

// With returns the site with node i anew, or with a node put in at position i.
func (s *NodeSet) With(i int, facts *jobspec.NodeFacts, inserted bool, nodes int) *NodeSet {
	words := (nodes + 63) / 64
	next := &NodeSet{where: s.where, prefer: s.prefer, Levels: make([]AffinityLevel, 0, len(s.Levels)+1)}
	for _, l := range s.Levels {
		bits := make([]uint64, words)
		copy(bits, l.Nodes)
		if inserted {
			openBit(bits, i)
		} else {
			bits[i/64] &^= 1 << (i % 64)
		}
		next.Levels = append(next.Levels, AffinityLevel{l.Score, bits})
	}
	if score, in := s.Score(facts); in {
		next.level(score, words).Nodes[i/64] |= 1 << (i % 64)
	}
	next.Levels = slices.DeleteFunc(next.Levels, func(l AffinityLevel) bool { return len(trimZero(l.Nodes)) == 0 })
	return next
}

// openBit moves the bits from position i on up by one and leaves a zero there. The last bit of all
// must be free.
func openBit(words []uint64, i int) {
	low := uint64(1)<<(i%64) - 1
	carry := words[i/64] >> 63
	words[i/64] = words[i/64]&low | (words[i/64]&^low)<<1
	for k := i/64 + 1; k < len(words); k++ {
		words[k], carry = words[k]<<1|carry, words[k]>>63
	}
}

// SameFacts reports whether conditions cannot tell two inventories of a node apart.
func SameFacts(a, b *model.Node) bool {
	return a.BootID == b.BootID && a.Cores == b.Cores && a.Memory == b.Memory && slices.Equal(a.GPUs, b.GPUs) &&
		maps.Equal(a.Labels, b.Labels)
}

// trimZero returns a bit set without the zero words at its end.
func trimZero(words []uint64) []uint64 {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return words
}
