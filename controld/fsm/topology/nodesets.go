package topology

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// NodeSets is what waiting jobs say of nodes, by constraints and affinities. The zero value has
// none. Its methods take the nodes of the cluster by name: positions are those.
type NodeSets struct {
	sets  map[string]*NodeSet
	epoch uint64 // of the state at which the map became its own
}

// View returns the sets as they are now, to be read only.
func (t *NodeSets) View() NodeSets { return NodeSets{sets: t.sets} }

// Of returns the set of a text: one that is known, which is all that waiting jobs ask for, or a new
// one.
func (t *NodeSets) Of(text string, nodes []*model.Node) *NodeSet {
	if known := t.sets[text]; known != nil {
		return known
	}
	return NewNodeSet(text, nodes)
}

// Eligible returns the nodes that meet constraints, as bits by position; nil means all. The caller
// must not change it.
func (t *NodeSets) Eligible(constraints string, nodes []*model.Node) []uint64 {
	if constraints == "" {
		return nil
	}
	if levels := t.Of(constraints, nodes).Levels; len(levels) > 0 {
		return levels[0].Nodes
	}
	return make([]uint64, (len(nodes)+63)/64)
}

// ByAffinity returns the nodes in the order in which affinities like them; nil means that it is all
// one. The caller must not change it.
func (t *NodeSets) ByAffinity(affinities string, nodes []*model.Node) []AffinityLevel {
	if affinities == "" {
		return nil
	}
	return t.Of(affinities, nodes).Levels
}

// textsOf yields what a shape says of nodes.
func textsOf(shape model.Shape) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range shape.Each {
			if part.Constraints != "" && !yield(part.Constraints) || part.Affinities != "" && !yield(part.Affinities) {
				return
			}
		}
	}
}

// Keep makes sure that what a shape says of nodes is known.
func (t *NodeSets) Keep(shape model.Shape, nodes []*model.Node, epoch uint64) {
	if shape.Constraints == "" && shape.Affinities == "" && shape.Parts == "" {
		return
	}
	for text := range textsOf(shape) {
		if t.sets[text] == nil {
			t.own(epoch)[text] = NewNodeSet(text, nodes)
		}
	}
}

// Admit refuses a job with which waiting jobs would say too many different things of nodes. All
// replicas agree although some remember what no job says any more: what counts is what is left when
// that is forgotten.
func (t *NodeSets) Admit(spec *jobspec.Job, waiting iter.Seq[model.Shape], epoch uint64) error {
	for i := range spec.Groups {
		for _, text := range []string{model.WhereOf(spec, &spec.Groups[i]), model.PreferOf(spec, &spec.Groups[i])} {
			if text == "" || len(t.sets) < MaxNodeSets {
				continue
			}
			if t.sweep(waiting, epoch); t.sets[text] == nil && len(t.sets) >= MaxNodeSets {
				return model.Limit("the number of different conditions on nodes in the cluster", int64(len(t.sets)+1), MaxNodeSets,
					"")
			}
		}
	}
	return nil
}

// sweep forgets what no waiting job says of nodes any more.
func (t *NodeSets) sweep(waiting iter.Seq[model.Shape], epoch uint64) {
	used := map[string]bool{}
	for shape := range waiting {
		for text := range textsOf(shape) {
			used[text] = true
		}
	}
	maps.DeleteFunc(t.own(epoch), func(text string, _ *NodeSet) bool { return !used[text] })
}

// own returns the map ready to be written.
func (t *NodeSets) own(epoch uint64) map[string]*NodeSet {
	if t.epoch != epoch || t.sets == nil {
		next := make(map[string]*NodeSet, len(t.sets)+1)
		maps.Copy(next, t.sets)
		t.sets, t.epoch = next, epoch
	}
	return t.sets
}

// Update brings all sets up to date with the node at a position, which is new or was old before.
func (t *NodeSets) Update(i int, old *model.Node, nodes []*model.Node, epoch uint64) {
	if len(t.sets) == 0 || old != nil && SameFacts(old, nodes[i]) {
		return
	}
	var facts jobspec.NodeFacts
	SetFacts(&facts, nodes[i])
	sets := t.own(epoch)
	for text, known := range sets {
		sets[text] = known.With(i, &facts, old == nil, len(nodes))
	}
}

// CheckKnown says whether what a waiting job's shape says of nodes is known.
func (t *NodeSets) CheckKnown(shape model.Shape) error {
	for text := range textsOf(shape) {
		if t.sets[text] == nil {
			return fmt.Errorf("the nodes of a group are unknown: %q", text)
		}
	}
	return nil
}

// Check compares all sets with those made anew.
func (t *NodeSets) Check(nodes []*model.Node, note func(error)) {
	for text, known := range t.sets {
		want := NewNodeSet(text, nodes)
		if !slices.EqualFunc(known.Levels, want.Levels,
			func(a, b AffinityLevel) bool { return a.Score == b.Score && slices.Equal(a.Nodes, b.Nodes) }) {
			note(fmt.Errorf("the nodes of %q are %v, recomputed %v", text, known.Levels, want.Levels))
		}
	}
}

// CheckNode compares what is known of one node with what it is.
func (t *NodeSets) CheckNode(i int, n *model.Node, note func(error)) {
	var facts jobspec.NodeFacts
	SetFacts(&facts, n)
	for text, known := range t.sets {
		score, in := known.Score(&facts)
		found := false
		for _, l := range known.Levels {
			has := i/64 < len(l.Nodes) && l.Nodes[i/64]&(1<<(i%64)) != 0
			if has != (in && l.Score == score) {
				note(fmt.Errorf("the nodes of %q: %s is wrong: %v", text, n.Name, known.Levels))
			}
			found = found || has
		}
		if in && !found {
			note(fmt.Errorf("node %s is missing from the nodes of %q", n.Name, text))
		}
	}
}
