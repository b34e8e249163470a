package state

import (
	"iter"

	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// EligibleNodes returns the nodes that meet constraints, as bits by position; nil means all. The
// caller must not change it.
func (v *View) EligibleNodes(constraints string) []uint64 {
	return v.nodeSets.Eligible(constraints, v.nodes)
}

// NodesByAffinity returns the nodes in the order in which affinities like them; nil means that it
// is all one. The caller must not change it.
func (v *View) NodesByAffinity(affinities string) []topology.AffinityLevel {
	return v.nodeSets.ByAffinity(affinities, v.nodes)
}

// NearestFit says whether the nodes that have registered could hold a gang if they were empty, see
// [topology.NodeSets.NearestFit].
func (v *View) NearestFit(s model.Shape) (bool, model.Reason) {
	return v.nodeSets.NearestFit(v.nodes, s)
}

// CouldHoldAll reports whether empty nodes could hold each part of a gang, those in exclude left
// out.
func (v *View) CouldHoldAll(s model.Shape, exclude []string) bool {
	return v.nodeSets.CouldHoldAll(v.nodes, s, exclude)
}

// AdmitNodeSets refuses a job with which waiting jobs would say too many different things of nodes.
func (s *State) AdmitNodeSets(spec *jobspec.Job) error {
	return s.v.nodeSets.Admit(spec, s.v.waitingShapes(), s.epoch)
}

// waitingShapes yields the shapes of jobs that wait.
func (v *View) waitingShapes() iter.Seq[model.Shape] {
	return func(yield func(model.Shape) bool) {
		for g := range v.QueueGroups() {
			if !yield(g.Key.Shape) {
				return
			}
		}
	}
}
