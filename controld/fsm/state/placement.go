package state

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// Locate returns the positions of the nodes of places if these are what a job asks for. Ports do not matter.
func (v *View) Locate(j *model.Job, places []model.Place) ([]int, error) {
	if len(places) != j.Workers {
		return nil, fmt.Errorf("%d places for %d workers: %w", len(places), j.Workers, model.ErrWrongPlaces)
	}
	at, shapes := make([]int, len(places)), append([]model.Shape{model.ShapeOf(j)}, model.MoreParts(j)...)
	var on map[[2]int]int
	if len(places) > 1 {
		on = map[[2]int]int{}
	}
	for i, p := range places {
		_, n := v.Node(p.Node)
		if n < 0 {
			return nil, fmt.Errorf("node %s: %w", p.Node, model.ErrNoNode)
		}
		part, _ := j.PartOf(i)
		shape := &shapes[part]
		if on != nil {
			on[[2]int{part, n}]++
		}
		if on[[2]int{part, n}] > shape.PerNode || len(p.GPUs) != shape.Request.Devices() {
			return nil, fmt.Errorf("node %s: %w", p.Node, model.ErrWrongPlaces)
		}
		if shape.Constraints != "" && v.EligibleNodes(shape.Constraints)[n/64]&(1<<(n%64)) == 0 {
			return nil, fmt.Errorf("node %s does not meet the job's constraints: %w", p.Node, model.ErrWrongPlaces)
		}
		at[i] = n
	}
	return at, nil
}

// CheckPorts looks at the port at which the workers of a start meet, and at those of its places: it accepts no port where there is none to give: for a single worker, and on nodes without a range. The workers of a gang of
// several groups have one each, besides the one at which the gang meets.
func (v *View) CheckPorts(j *model.Job, port int, places []model.Place, at []int) error {
	if err := v.checkPort(port, at[0], len(places) == 1); err != nil {
		return err
	}
	var taken map[[2]int]bool
	if len(j.Parts) > 0 {
		taken = map[[2]int]bool{{at[0], port}: true}
	}
	for i, p := range places {
		if len(j.Parts) == 0 {
			if p.Port != 0 {
				return fmt.Errorf("port %d for worker %d: %w", p.Port, i, model.ErrPort)
			}
			continue
		}
		if err := v.checkPort(p.Port, at[i], false); err != nil {
			return err
		}
		key := [2]int{at[i], p.Port}
		if p.Port != 0 && taken[key] {
			return fmt.Errorf("port %d of node %s twice: %w", p.Port, p.Node, model.ErrPort)
		}
		taken[key] = true
	}
	return nil
}

func (v *View) checkPort(port, at int, needless bool) error {
	n := v.nodes[at]
	if port == 0 && (needless || n.PortMin == 0) {
		return nil
	}
	h, _ := v.holdings.Get(int64(at))
	if _, used := slices.BinarySearch(h.ports, port); used || port < max(1, n.PortMin) || port > n.PortMax {
		return fmt.Errorf("port %d of node %s: %w", port, n.Name, model.ErrPort)
	}
	return nil
}

// Occupy takes the room of all places of a start, or none if they do not all fit together.
func (s *State) Occupy(j *model.Job, places []model.Place, at []int) error {
	g := s.ownGrid()
	defer s.v.LiftClaims(g, j.ID)()
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
