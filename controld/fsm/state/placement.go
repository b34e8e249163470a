package state

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// Occupy takes the room of all places of a start, or none if they do not all fit together. Room
// reserved for the job with the id reserved may be taken; for an array task that is its parent job.
func (s *State) Occupy(j *model.Job, reserved model.JobID, places []model.Place, at []int) error {
	g := s.ownGrid()
	lifted := s.v.LiftClaims(g, reserved)
	defer lifted.Restore()
	for i, p := range places {
		r, gpus := j.RequestOf(i), grid.OrNone(p.GPUs)
		why := grid.Fits(g, at[i], r, gpus)
		if why != nil && r.Exclusive && j.Shares(at, i) && g.Joins(at[i], r, gpus) {
			why = nil
		}
		if why != nil {
			for k := range i {
				g.Release(at[k], j.RequestOf(k), places[k].GPUs)
			}
			return &model.FitError{Job: j.ID, Reason: *why}
		}
		g.Allocate(at[i], r, gpus)
	}
	return nil
}

// holdPorts notes ports as held on a node.
func (h *holding) holdPorts(ports []int) {
	for _, port := range ports {
		k, _ := slices.BinarySearch(h.ports, port)
		h.ports = slices.Insert(h.ports, k, port)
	}
}

// FreePorts gives back the ports of an attempt that has ended.
func (s *State) FreePorts(a *model.Attempt) {
	for i := range a.Workers {
		ports := a.Ports(i)
		if len(ports) == 0 {
			continue
		}
		_, at := s.v.Node(a.Workers[i].Node)
		h := s.ownHolding(at)
		h.ports = slices.DeleteFunc(h.ports, func(p int) bool { return slices.Contains(ports, p) })
	}
}

// WholeOf returns all that a node has, for a worker that has it for itself and is charged for it.
func (v *View) WholeOf(r model.Request, at int) model.Vector {
	if !r.Exclusive {
		return model.Vector{}
	}
	return grid.Capacity(v.nodes[at])
}
