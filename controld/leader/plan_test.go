package leader

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

func TestAPlanIsDividedInOrder(t *testing.T) {
	start := func(places int) cluster.Action {
		return cluster.Action{Start: &cluster.StartJob{Places: make([]cluster.Place, places)}}
	}
	give := cluster.JobID(1)
	plan := cluster.CommitPlan{BasedOn: 7, Turns: true, Actions: []cluster.Action{
		start(1), start(1), {GiveUp: &give}, start(9), start(2), {Resize: &cluster.ResizeJob{Join: make([]cluster.Place,
			2)}}, {GiveUp: &give},
	}}
	var lengths []int
	var all []cluster.Action
	for p := range parts(plan, 5) {
		lengths, all = append(lengths, len(p.Actions)), append(all, p.Actions...)
		if p.BasedOn != 7 || p.Turns != (len(all) == len(plan.Actions)) {
			t.Errorf("part %d: based on %d, turns %t", len(lengths), p.BasedOn, p.Turns)
		}
	}
	if !reflect.DeepEqual(all, plan.Actions) || !slices.Equal(lengths, []int{3, 1, 1, 2}) {
		t.Errorf("parts of %v actions", lengths)
	}
	for p := range parts(cluster.CommitPlan{Turns: true}, 5) {
		if !p.Turns || len(p.Actions) != 0 {
			t.Errorf("of a plan without actions: %+v", p)
		}
	}
}
