package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// MaxPlacings bounds the different conditions on nodes, and wishes about them, of all waiting jobs: for each the state keeps a set of nodes.
const MaxPlacings = 16_384

// Level is nodes that a job likes equally: bit i of Nodes is set for the node at position i. It never changes.
type Level struct {
	Score int
	Nodes []uint64
}

// nodeSet is what a Where or a Prefer means on the nodes there are. It never changes: what changes the nodes makes new ones.
type nodeSet struct {
	where  where
	prefer prefer
	levels []Level // best first; of a Where the only one has the nodes on which it holds
}

// Eligible returns the nodes on which a Where holds, as bits by position; nil means all. The caller must not change it.
func (v *View) Eligible(where string) []uint64 {
	if where == "" {
		return nil
	}
	if levels := v.nodeSet(where).levels; len(levels) > 0 {
		return levels[0].Nodes
	}
	return make([]uint64, (len(v.nodes)+63)/64)
}

// Preferred returns the nodes in the order in which a Prefer likes them; nil means that it is all one. The caller must not change it.
func (v *View) Preferred(prefer string) []Level {
	if prefer == "" {
		return nil
	}
	return v.nodeSet(prefer).levels
}

// nodeSet finds what is known, which is all that waiting jobs ask for, or makes it.
func (v *View) nodeSet(text string) *nodeSet {
	if known := v.nodeSets[text]; known != nil {
		return known
	}
	return newNodeSet(text, v.nodes)
}

// newNodeSet parses a text that checkWhere has accepted. The two kinds tell themselves apart: a Prefer begins with a number.
func newNodeSet(text string, nodes []*Node) *nodeSet {
	s := &nodeSet{}
	if strings.ContainsAny(text[:1], "-0123456789") {
		s.prefer, _ = parsePrefer(text)
	} else {
		s.where, _ = parseWhere(text)
	}
	var facts jobspec.NodeFacts
	words := (len(nodes) + 63) / 64
	for i, n := range nodes {
		setFacts(&facts, n)
		if score, in := s.score(&facts); in {
			level := s.level(score, words)
			level.Nodes[i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// score returns the level of a node, and false if it is in none.
func (s *nodeSet) score(n *jobspec.NodeFacts) (int, bool) {
	if s.prefer != nil {
		return s.prefer.score(n), true
	}
	return 0, s.where.holds(n)
}

// level returns the level with a score, which is added if there is none. Only for sites that nobody else sees yet.
func (s *nodeSet) level(score, words int) *Level {
	i, found := slices.BinarySearchFunc(s.levels, score, func(l Level, score int) int { return cmp.Compare(score, l.Score) })
	if !found {
		s.levels = slices.Insert(s.levels, i, Level{score, make([]uint64, words)})
	}
	return &s.levels[i]
}

// with returns the site with node i anew, or with a node put in at position i.
func (s *nodeSet) with(i int, facts *jobspec.NodeFacts, inserted bool, nodes int) *nodeSet {
	words := (nodes + 63) / 64
	next := &nodeSet{where: s.where, prefer: s.prefer, levels: make([]Level, 0, len(s.levels)+1)}
	for _, l := range s.levels {
		bits := make([]uint64, words)
		copy(bits, l.Nodes)
		if inserted {
			openBit(bits, i)
		} else {
			bits[i/64] &^= 1 << (i % 64)
		}
		next.levels = append(next.levels, Level{l.Score, bits})
	}
	if score, in := s.score(facts); in {
		next.level(score, words).Nodes[i/64] |= 1 << (i % 64)
	}
	next.levels = slices.DeleteFunc(next.levels, func(l Level) bool { return len(trimZero(l.Nodes)) == 0 })
	return next
}

// openBit moves the bits from position i on up by one and leaves a zero there. The last bit of all must be free.
func openBit(words []uint64, i int) {
	low := uint64(1)<<(i%64) - 1
	carry := words[i/64] >> 63
	words[i/64] = words[i/64]&low | (words[i/64]&^low)<<1
	for k := i/64 + 1; k < len(words); k++ {
		words[k], carry = words[k]<<1|carry, words[k]>>63
	}
}

// keepNodeSets makes sure that the state knows what a shape says of nodes.
func (s *State) keepNodeSets(shape Shape) {
	if shape.Where == "" && shape.Prefer == "" && shape.Parts == "" {
		return
	}
	for part := range shape.Each {
		for _, text := range []string{part.Where, part.Prefer} {
			if text != "" && s.v.nodeSets[text] == nil {
				s.ownNodeSets()[text] = newNodeSet(text, s.v.nodes)
			}
		}
	}
}

// admitNodeSets refuses a job with which waiting jobs would say too many different things of nodes. All replicas agree although some remember
// what nobody says any more: what counts is what is left after a sweep.
func (s *State) admitNodeSets(spec *jobspec.Job) error {
	for i := range spec.Groups {
		for _, text := range []string{whereOf(spec, &spec.Groups[i]), preferOf(spec, &spec.Groups[i])} {
			if text == "" || len(s.v.nodeSets) < MaxPlacings {
				continue
			}
			if s.sweepNodeSets(); s.v.nodeSets[text] == nil && len(s.v.nodeSets) >= MaxPlacings {
				return limit("the number of different conditions on nodes in the cluster", int64(len(s.v.nodeSets)+1), MaxPlacings, "")
			}
		}
	}
	return nil
}

// sweepNodeSets forgets what no waiting job says of nodes any more.
func (s *State) sweepNodeSets() {
	used := map[string]bool{}
	for g := range s.v.groups.values() {
		for part := range g.Key.Shape.Each {
			used[part.Where], used[part.Prefer] = true, true
		}
	}
	maps.DeleteFunc(s.ownNodeSets(), func(text string, _ *nodeSet) bool { return !used[text] })
}

// ownNodeSets returns the map of sites ready to be written.
func (s *State) ownNodeSets() map[string]*nodeSet {
	if s.nodeSetEpoch != s.epoch || s.v.nodeSets == nil {
		next := make(map[string]*nodeSet, len(s.v.nodeSets)+1)
		maps.Copy(next, s.v.nodeSets)
		s.v.nodeSets, s.nodeSetEpoch = next, s.epoch
	}
	return s.v.nodeSets
}

// updateNodeSets brings all sites up to date with node i, which is new or was old before.
func (s *State) updateNodeSets(i int, old *Node) {
	if len(s.v.nodeSets) == 0 || old != nil && sameFacts(old, s.v.nodes[i]) {
		return
	}
	var facts jobspec.NodeFacts
	setFacts(&facts, s.v.nodes[i])
	sites := s.ownNodeSets()
	for text, known := range sites {
		sites[text] = known.with(i, &facts, old == nil, len(s.v.nodes))
	}
}

// sameFacts reports whether conditions cannot tell two inventories of a node apart.
func sameFacts(a, b *Node) bool {
	return a.BootID == b.BootID && a.Cores == b.Cores && a.Memory == b.Memory && slices.Equal(a.GPUs, b.GPUs) && maps.Equal(a.Labels, b.Labels)
}

// checkNodeSets says whether the state knows what waiting jobs say of nodes, and has it right.
func (s *State) checkNodeSets(note func(error)) {
	for g := range s.v.groups.values() {
		for part := range g.Key.Shape.Each {
			for _, text := range []string{part.Where, part.Prefer} {
				if text != "" && s.v.nodeSets[text] == nil {
					note(fmt.Errorf("the nodes of a group are not known: %q", text))
				}
			}
		}
	}
	for text, known := range s.v.nodeSets {
		want := newNodeSet(text, s.v.nodes)
		if !slices.EqualFunc(known.levels, want.levels, func(a, b Level) bool { return a.Score == b.Score && slices.Equal(a.Nodes, b.Nodes) }) {
			note(fmt.Errorf("the nodes of %q are %v, made anew %v", text, known.levels, want.levels))
		}
	}
}

// trimZero returns a bit set without the zero words at its end.
func trimZero(words []uint64) []uint64 {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return words
}
