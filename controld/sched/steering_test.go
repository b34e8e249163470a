package sched_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestSteering plays random histories under every policy. In each state every switch is turned on
// in a fork. The plan has no paused actions. A dry run gives the same plan as paused displacements,
// except for its records.
func TestSteering(t *testing.T) {
	for _, name := range sched.Policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]int{}
			first, last := uint64(1), uint64(schedtest.States(20))
			if *schedtest.Seed != 0 {
				first, last = *schedtest.Seed, *schedtest.Seed
			}
			for seed := first; seed <= last; seed++ {
				if err := steered(seed, name, seen); err != nil {
					t.Fatalf("seed=%d: %v", seed, err)
				}
			}
			t.Logf("%v", seen)
			if displaces[name] && *schedtest.Seed == 0 && seen["displaced"] == 0 {
				t.Errorf("no job was displaced: %v", seen)
			}
		})
	}
}

// displaces are the policies of which these histories see displacements.
var displaces = map[string]bool{"rota": true, "fitgpp": true, "lrtp": true, "rand": true, "las": true,
	"elastic": true}

// steered plays one history.
func steered(seed uint64, policy string, seen map[string]int) error {
	c := schedtest.NewContest(seed, policy, seen)
	c.Unchecked = true
	for step := range 20 {
		c.Step()
		if step%3 == 0 {
			c.Must("submit e%d elastic=1-3 gpus=1 priority=%d save=yes grace=30s", step, 30+c.Random.IntN(40))
		}
		if step%2 == 0 {
			c.Must("advance %dm", 1+c.Random.IntN(30))
		}
		for range 5 {
			v := c.State.View()
			plan, _ := sched.Cycle(v, c.Now, v.Config().Policy)
			if err := eachSwitch(c, v, plan, seen); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if len(plan.Actions) == 0 {
				break
			}
			if _, err := c.Apply(plan); err != nil {
				return err
			}
		}
		for j := range c.State.View().Live() {
			if j.State == model.Configuring && c.Random.IntN(2) == 0 {
				c.Must("run %s", c.Names[j.ID])
			}
		}
	}
	return nil
}

// eachSwitch compares a plan with those that are made while one switch is on.
func eachSwitch(c *schedtest.Contest, v *state.View, plan fsm.CommitPlan, seen map[string]int) error {
	plans := map[steering.Switch]fsm.CommitPlan{}
	for _, what := range steering.Switches {
		fork, err := forkWith(c, v, what)
		if err != nil {
			return err
		}
		view := fork.View()
		plans[what], _ = sched.Cycle(view, c.Now, view.Config().Policy)
		for _, a := range plans[what].Actions {
			if !legalUnder(what, a) {
				return fmt.Errorf("with %s on: %s", what, c.Action(a))
			}
		}
		if what == steering.DryRun {
			if err := recordsOnly(c, fork, plans[what]); err != nil {
				return err
			}
		}
	}
	for _, a := range plan.Actions {
		if !legalUnder(steering.Preemption, a) {
			seen["displaced"]++
		}
	}
	paused, dry := plans[steering.Preemption], plans[steering.DryRun]
	if !reflect.DeepEqual(paused.Actions, dry.Actions) {
		return fmt.Errorf("the dry run decides %+v, and without displacements it is %+v", dry.Actions, paused.Actions)
	}
	if free := displacing(plan); free != (len(dry.Would) > 0) {
		return fmt.Errorf("the dry run records %+v of %+v", dry.Would, plan.Actions)
	}
	return nil
}

// forkWith returns a fork of a state with a switch on.
func forkWith(c *schedtest.Contest, v *state.View, what steering.Switch) (*fsm.Machine, error) {
	fork := fsm.Fork(v)
	_, err := fork.Apply(v.Index()+1, fsm.Entry{Stamp: model.Stamp{At: c.Now}, Command: fsm.Steer{What: what, On: true,
		By: "root"}})
	return fork, err
}

func displacing(plan fsm.CommitPlan) bool {
	for _, a := range plan.Actions {
		switch a := a.(type) {
		case *fsm.StopJob, *fsm.SuspendJob:
			if a.PartOf() != "" {
				return true
			}
		case *fsm.ResizeJob:
			if a.For != 0 {
				return true
			}
		}
	}
	return false
}

// legalUnder reports whether an action may be decided while a switch is on.
func legalUnder(what steering.Switch, a fsm.Action) bool {
	start, _ := a.(*fsm.StartJob)
	stop, _ := a.(*fsm.StopJob)
	suspend, _ := a.(*fsm.SuspendJob)
	resize, _ := a.(*fsm.ResizeJob)
	move, _ := a.(*fsm.MoveJob)
	reserve, _ := a.(*fsm.Reserve)
	asked := stop != nil && stop.Cause != model.CauseTimeout || resize != nil && resize.For != 0 ||
		suspend != nil || move != nil
	switch what {
	case steering.Preemption, steering.DryRun:
		return !asked
	case steering.Migration:
		return move == nil && (stop == nil || stop.Cause != model.CauseMigrate)
	case steering.Growth:
		return resize == nil || resize.For != 0
	case steering.Slicing:
		return suspend == nil || suspend.Cause != model.CauseSlice
	case steering.Packing:
		return true
	}
	return !asked && start == nil && reserve == nil && resize == nil
}

// recordsOnly applies what a dry run records, and nothing else of its plan. Only the records are
// other than before, and a second cycle finds nothing new.
func recordsOnly(c *schedtest.Contest, fork *fsm.Machine, plan fsm.CommitPlan) error {
	if len(plan.Would) == 0 {
		return nil
	}
	before := fork.View()
	e := fsm.Entry{Stamp: model.Stamp{At: c.Now}, Command: fsm.CommitPlan{BasedOn: before.Index(), Would: plan.Would}}
	if _, err := fork.Apply(before.Index()+1, e); err != nil {
		return err
	}
	after := fork.View()
	if was, is := withoutSteering(before), withoutSteering(after); !bytes.Equal(was, is) {
		return fmt.Errorf("the record changes the state:\n%s\nto\n%s", was, is)
	}
	if n := len(after.Displacements()); n != len(plan.Would) {
		return fmt.Errorf("%d displacements are recorded of %+v", n, plan.Would)
	}
	if again, _ := sched.Cycle(after, c.Now, after.Config().Policy); len(again.Would) > 0 {
		return fmt.Errorf("they are recorded again: %+v", again.Would)
	}
	return fork.Check()
}

// withoutSteering is the snapshot of a state without its head and what operators have said.
func withoutSteering(v *state.View) []byte {
	var b bytes.Buffer
	if err := v.WriteSnapshot(&b); err != nil {
		return []byte(err.Error())
	}
	var kept []byte
	for i, line := range bytes.Split(b.Bytes(), []byte("\n")) {
		if i > 0 && !bytes.HasPrefix(line, []byte(`{"steering"`)) {
			kept = append(append(kept, line...), '\n')
		}
	}
	return kept
}
