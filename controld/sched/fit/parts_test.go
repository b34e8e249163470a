package fit

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// parts is a gang of two or three groups.
func (s *small) parts() (Gang, *model.Job) {
	var groups []jobspec.Group
	for range 2 + s.random.IntN(2) {
		g := group(1+s.random.IntN(2), 1+s.random.IntN(2), jobspec.Resources{Cores: 1, Memory: jobspec.GiB,
			GPUs: s.random.IntN(3)})
		g.Exclusive = s.random.IntN(8) == 0
		if s.random.IntN(6) == 0 {
			g.Constraints = []jobspec.Constraint{{Attribute: "node.label.rack", Value: "1"}}
		}
		groups = append(groups, g)
	}
	j := s.submitGroups(&jobspec.Job{GangScope: "job"}, groups...)
	return NewGang(s.state.View(), j), j
}

// possible tries every node for every worker, one after another, and asks the state about each gang
// that it comes up with.
func (s *small) possible(v *state.View, j *model.Job, places []model.Place, taken map[string]int) bool {
	worker := len(places)
	if worker == j.Workers {
		start := fsm.StartJob{Job: j.ID, Places: places, Port: s.portOf(v, places[0].Node, taken)}
		plan := fsm.CommitPlan{Actions: []fsm.Action{&start}}
		errs, _ := fsm.Fork(v).Apply(v.Index()+1, fsm.Entry{Stamp: model.Stamp{At: 1, Wall: 1}, Command: plan})
		return errs.([]error)[0] == nil
	}
	for i, n := range v.Nodes() {
		free, need := list(v.Grid().FreeGPUs(i)), int(j.RequestOf(worker).Active.GPUs/1000)
		for _, p := range places {
			if p.Node == n.Name {
				free = without(free, p.GPUs)
			}
		}
		if len(free) < need || grid.Fits(v.Grid(), i, j.RequestOf(worker), nil) != nil {
			continue
		}
		place := model.Place{Node: n.Name, GPUs: free[:need], Port: s.portOf(v, n.Name, taken)}
		taken[n.Name]++
		if s.possible(v, j, append(places[:worker:worker], place), taken) {
			return true
		}
		taken[n.Name]--
	}
	return false
}

// portOf returns the next free port of a node, 0 if there is none.
func (s *small) portOf(v *state.View, node string, taken map[string]int) int {
	var used []int
	for range taken[node] {
		port, _ := v.FreePort(node, used...)
		used = append(used, port)
	}
	port, _ := v.FreePort(node, used...)
	return port
}

func without(all, less []int) []int {
	var rest []int
	for _, i := range all {
		if len(less) == 0 || i != less[0] {
			rest = append(rest, i)
		} else {
			less = less[1:]
		}
	}
	return rest
}

// contents writes down what is free and claimed on each node.
func contents(r *Room) string {
	text := ""
	for i := range r.grid.Len() {
		text += fmt.Sprintln(r.Free(i), r.grid.FreeGPUs(i), r.Claimed(i), r.grid.Workers(i), r.Whole(i))
	}
	for n := range r.grid.Buckets() {
		text += fmt.Sprintln(r.grid.Bucket(n))
	}
	return text
}

// The state accepts every placement, with all invariants. A placement that exists is hardly ever
// missed. It can be missed because the parts choose one after another, without regard to the later
// parts.
func TestPartsAgainstReference(t *testing.T) {
	placed, missed := 0, 0
	eachSeed(t, 800, func(seed uint64) error {
		s := newSmall(seed, [...]int{50, 3}[seed%2])
		g, j := s.parts()
		v := s.state.View()
		room := NewRoom(v)
		before := contents(room)
		spots, ok := room.Place(&g)
		if ok != room.Fits(&g) || contents(room) != before {
			return fmt.Errorf("looking for room for %+v changed what is free", g)
		}
		if !ok {
			if s.possible(v, j, nil, map[string]int{}) {
				missed++
			}
			return nil
		}
		placed++
		return s.commit(room, g, spots)
	})
	if *seedFlag == 0 && (placed < 150 || missed > placed/20) {
		t.Errorf("%d gangs placed and %d missed", placed, missed)
	}
	t.Logf("%d gangs placed, %d missed", placed, missed)
}
