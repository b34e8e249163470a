package sched_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestPromiseInVain lets something go wrong after a node of four GPUs was promised to a
// trial-and-error job. The next cycle gives up the reservation, an hour before it would expire. If
// nothing does it is kept.
func TestPromiseInVain(t *testing.T) {
	for name, c := range map[string]struct {
		attempt int      // of the stop that is committed with the reservation
		lines   []string // what happens then
		vain    bool
	}{
		"nothing":                      {attempt: 1},
		"it has left":                  {attempt: 1, lines: []string{"exit code=85 old"}},
		"another job leaves, too":      {attempt: 1, lines: []string{"cancel other"}},
		"a stop comes too late":        {attempt: 7, vain: true},
		"the node gets no more work":   {attempt: 1, lines: []string{"drain n1"}, vain: true},
		"the node is down":             {attempt: 1, lines: []string{"down n1"}, vain: true},
		"the node is down and back":    {attempt: 1, lines: []string{"down n1", "up n1"}},
		"another node gets no work":    {attempt: 1, lines: []string{"drain n2"}},
		"it is cancelled as it leaves": {attempt: 1, lines: []string{"cancel old"}},
	} {
		w := schedtest.NewWorld()
		run := func(lines ...string) {
			for _, line := range lines {
				if err := w.Run(line); err != nil {
					t.Fatalf("%s: %s: %v", name, line, err)
				}
			}
		}
		run("policy name=rota", "node n1 gpus=4", "submit old gpus=4 save=yes", "cycle", "node n2 gpus=1",
			"submit other gpus=1", "cycle", "run old other", "advance 1h",
			"submit quick class=te gpus=4")
		plan := fsm.CommitPlan{BasedOn: w.Index, Actions: []fsm.Action{
			&fsm.Reserve{
				Job: w.Ids["quick"], ForPreemptor: true, Until: w.Now + 3_600_000,
				Claims: []model.Claim{{Node: "n1", Resources: model.Vector{Cores: 1, Memory: jobspec.GiB, GPUs: 4000}}},
			},
			&fsm.StopJob{Job: w.Ids["old"], Attempt: c.attempt, Cause: model.CauseTE, For: w.Ids["quick"]},
		}}
		result, err := w.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		if refused := result.([]error)[1] != nil; refused != (c.attempt > 1) {
			t.Fatalf("%s: the stop was refused: %t", name, refused)
		}
		run(c.lines...)
		got, _ := sched.Cycle(w.State.View(), w.Now, w.State.View().Config().Policy)
		lifted := false
		if len(got.Actions) > 0 {
			a, ok := got.Actions[0].(*fsm.Unreserve)
			lifted = ok && a.Job == w.Ids["quick"]
		}
		if lifted != c.vain {
			t.Errorf("%s: the reservation was given up: %t, in %d actions", name, lifted, len(got.Actions))
		}
	}
}
