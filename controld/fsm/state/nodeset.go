package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// EligibleNodes returns the nodes on which a Where holds, as bits by position; nil means all. The caller must not change it.
func (v *View) EligibleNodes(where string) []uint64 {
	if where == "" {
		return nil
	}
	if levels := v.nodeSet(where).Levels; len(levels) > 0 {
		return levels[0].Nodes
	}
	return make([]uint64, (len(v.nodes)+63)/64)
}

// NodesByAffinity returns the nodes in the order in which a Prefer likes them; nil means that it is all one. The caller must not change it.
func (v *View) NodesByAffinity(prefer string) []topology.AffinityLevel {
	if prefer == "" {
		return nil
	}
	return v.nodeSet(prefer).Levels
}

// nodeSet finds what is known, which is all that waiting jobs ask for, or makes it.
func (v *View) nodeSet(text string) *topology.NodeSet {
	if known := v.nodeSets[text]; known != nil {
		return known
	}
	return topology.NewNodeSet(text, v.nodes)
}

// keepNodeSets makes sure that the state knows what a shape says of nodes.
func (s *State) keepNodeSets(shape model.Shape) {
	if shape.Constraints == "" && shape.Affinities == "" && shape.Parts == "" {
		return
	}
	for part := range shape.Each {
		for _, text := range []string{part.Constraints, part.Affinities} {
			if text != "" && s.v.nodeSets[text] == nil {
				s.ownNodeSets()[text] = topology.NewNodeSet(text, s.v.nodes)
			}
		}
	}
}

// AdmitNodeSets refuses a job with which waiting jobs would say too many different things of nodes. All replicas agree although some remember
// what no job says any more: what counts is what is left after a sweep.
func (s *State) AdmitNodeSets(spec *jobspec.Job) error {
	for i := range spec.Groups {
		for _, text := range []string{model.WhereOf(spec, &spec.Groups[i]), model.PreferOf(spec, &spec.Groups[i])} {
			if text == "" || len(s.v.nodeSets) < topology.MaxNodeSets {
				continue
			}
			if s.sweepNodeSets(); s.v.nodeSets[text] == nil && len(s.v.nodeSets) >= topology.MaxNodeSets {
				return model.Limit("the number of different conditions on nodes in the cluster", int64(len(s.v.nodeSets)+1), topology.MaxNodeSets, "")
			}
		}
	}
	return nil
}

// sweepNodeSets forgets what no waiting job says of nodes any more.
func (s *State) sweepNodeSets() {
	used := map[string]bool{}
	for g := range s.v.QueueGroups() {
		for part := range g.Key.Shape.Each {
			used[part.Constraints], used[part.Affinities] = true, true
		}
	}
	maps.DeleteFunc(s.ownNodeSets(), func(text string, _ *topology.NodeSet) bool { return !used[text] })
}

// ownNodeSets returns the map of sites ready to be written.
func (s *State) ownNodeSets() map[string]*topology.NodeSet {
	if s.nodeSetEpoch != s.epoch || s.v.nodeSets == nil {
		next := make(map[string]*topology.NodeSet, len(s.v.nodeSets)+1)
		maps.Copy(next, s.v.nodeSets)
		s.v.nodeSets, s.nodeSetEpoch = next, s.epoch
	}
	return s.v.nodeSets
}

// updateNodeSets brings all sites up to date with node i, which is new or was old before.
func (s *State) updateNodeSets(i int, old *model.Node) {
	if len(s.v.nodeSets) == 0 || old != nil && topology.SameFacts(old, s.v.nodes[i]) {
		return
	}
	var facts jobspec.NodeFacts
	topology.SetFacts(&facts, s.v.nodes[i])
	sites := s.ownNodeSets()
	for text, known := range sites {
		sites[text] = known.With(i, &facts, old == nil, len(s.v.nodes))
	}
}

// checkNodeSets says whether the state knows what waiting jobs say of nodes, and has it right.
func (s *State) checkNodeSets(note func(error)) {
	for g := range s.v.QueueGroups() {
		for part := range g.Key.Shape.Each {
			for _, text := range []string{part.Constraints, part.Affinities} {
				if text != "" && s.v.nodeSets[text] == nil {
					note(fmt.Errorf("the nodes of a group are not known: %q", text))
				}
			}
		}
	}
	for text, known := range s.v.nodeSets {
		want := topology.NewNodeSet(text, s.v.nodes)
		if !slices.EqualFunc(known.Levels, want.Levels, func(a, b topology.AffinityLevel) bool { return a.Score == b.Score && slices.Equal(a.Nodes, b.Nodes) }) {
			note(fmt.Errorf("the nodes of %q are %v, made anew %v", text, known.Levels, want.Levels))
		}
	}
}
