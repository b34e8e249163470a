package attempts

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// locate returns the positions of the nodes of places if these are what a job asks for. Ports do
// not matter.
func (m *Manager) locate(j *model.Job, places []model.Place) ([]int, error) {
	if len(places) != j.Workers {
		return nil, fmt.Errorf("%d places for %d workers: %w", len(places), j.Workers, model.ErrWrongPlaces)
	}
	at, shapes := make([]int, len(places)), append([]model.Shape{model.ShapeOf(j)}, model.MoreParts(j)...)
	var on map[[2]int]int
	if len(places) > 1 {
		on = map[[2]int]int{}
	}
	for i, p := range places {
		_, n := m.view.Node(p.Node)
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
		if shape.Constraints != "" && m.view.EligibleNodes(shape.Constraints)[n/64]&(1<<(n%64)) == 0 {
			return nil, fmt.Errorf("node %s does not meet the job's constraints: %w", p.Node, model.ErrWrongPlaces)
		}
		at[i] = n
	}
	return at, nil
}

// checkPorts checks the port at which the workers of a start meet, and the ports of its places. A
// single worker, and nodes without a range, must have none. The workers of a gang of several groups
// have one each, besides the one at which the gang meets.
func (m *Manager) checkPorts(j *model.Job, port int, places []model.Place, at []int) error {
	if err := m.checkPort(port, at[0], len(places) == 1); err != nil {
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
		if err := m.checkPort(p.Port, at[i], false); err != nil {
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

func (m *Manager) checkPort(port, at int, needless bool) error {
	n := m.view.Nodes()[at]
	if port == 0 && (needless || n.PortMin == 0) {
		return nil
	}
	_, used := slices.BinarySearch(m.view.PortsUsed(n.Name), port)
	if used || port < max(1, n.PortMin) || port > n.PortMax {
		return fmt.Errorf("port %d of node %s: %w", port, n.Name, model.ErrPort)
	}
	return nil
}
