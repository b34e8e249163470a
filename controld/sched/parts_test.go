package sched_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
)

func TestAPlanIsDividedInOrder(t *testing.T) {
	start := func(places int) fsm.Action {
		return &fsm.StartJob{Places: make([]model.Place, places)}
	}
	give := model.JobID(1)
	plan := fsm.CommitPlan{BasedOn: 7, At: 9, Rotated: true, Actions: []fsm.Action{
		start(1), start(1), &fsm.GiveUp{Job: give}, start(9), start(2), &fsm.ResizeJob{Join: make([]model.Place,
			2)}, &fsm.GiveUp{Job: give},
	}}
	var lengths []int
	var all []fsm.Action
	for p := range sched.Parts(plan, 5) {
		lengths, all = append(lengths, len(p.Actions)), append(all, p.Actions...)
		if p.BasedOn != 7 || p.At != 9 || p.Part != len(lengths)-1 || p.Rotated != (len(all) == len(plan.Actions)) {
			t.Errorf("part %d: %+v", len(lengths), p)
		}
	}
	if !reflect.DeepEqual(all, plan.Actions) || !slices.Equal(lengths, []int{3, 1, 1, 2}) {
		t.Errorf("parts of %v actions", lengths)
	}
	for p := range sched.Parts(fsm.CommitPlan{Rotated: true}, 5) {
		if !p.Rotated || len(p.Actions) != 0 {
			t.Errorf("of a plan without actions: %+v", p)
		}
	}
}
