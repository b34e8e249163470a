package sched_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestTheSignalComesOnceAndBeforeTheLimit plays random lives of a job that pauses, under cycles
// that come at random times. The test counts the job's run time by itself.
func TestTheSignalComesOnceAndBeforeTheLimit(t *testing.T) {
	told, late := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 24))
		limit := model.Instant(2+r.IntN(600)) * 1000
		before := model.Instant(1+r.IntN(int(limit/1000)-1)) * 1000
		w := schedtest.NewWorld()
		must := func(format string, args ...any) {
			t.Helper()
			if err := w.Run(fmt.Sprintf(format, args...)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		must("node n1 gpus=1")
		must("submit a gpus=1 pause=1 limit=%ds before=%ds", limit/1000, before/1000)
		must("cycle")
		must("run a")
		began, paused, since := w.Now, model.Instant(0), model.Instant(0) // since: it has paused
		signals := 0
		live := func() *model.Attempt { return w.State.View().Job(w.Ids["a"]).Live() }
		for live().Stop == nil {
			w.Now += model.Instant(1 + r.IntN(int(limit)/(1+r.IntN(8))))
			a := live()
			switch {
			case r.IntN(3) > 0:
			case a.Suspending(), a.Resuming():
				if a.Suspending() {
					since = w.Now
				}
				if err := w.Switched(w.State.View().Job(w.Ids["a"]), a.Suspending()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case !a.Suspended() && w.State.View().CanSuspend(w.State.View().Job(w.Ids["a"])):
				if err := w.Commit(fsm.CommitPlan{Actions: []fsm.Action{&fsm.SuspendJob{Job: w.Ids["a"],
					Attempt: a.N, Cause: model.CauseSlice}}}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			for range 3 {
				v := w.State.View()
				plan, wake := sched.Cycle(v, w.Now, v.Config().Policy)
				if err := w.Commit(plan); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				a, ran := live(), w.Now-began-paused
				if since != 0 {
					ran = since - began - paused
				}
				for _, act := range plan.Actions {
					switch act.(type) {
					case *fsm.EarlySignal:
						if signals++; ran < limit-before || ran >= limit || since != 0 || signals > 1 {
							t.Fatalf("seed %d: signal %d after %d ms of %d, due %d before that, paused %t", seed, signals, ran, limit,
								before, since != 0)
						}
					case *fsm.StopJob:
						if ran < limit {
							t.Fatalf("seed %d: stopped after %d ms of %d", seed, ran, limit)
						}
					case *fsm.ResumeJob:
						if since != 0 {
							paused, since = paused+w.Now-since, 0
						}
					}
				}
				runs := a.Stop == nil && !a.Suspended() && !a.Suspending()
				if len(plan.Actions) > 0 {
					continue // another cycle follows
				}
				if ran = w.Now - began - paused; runs && ran < limit-before && (wake == 0 || wake > began+paused+limit-before) {
					t.Fatalf("seed %d: nothing looks again when the signal is due", seed)
				}
				if runs && ran >= limit-before && signals == 0 {
					t.Fatalf("seed %d: no signal after %d ms of %d, due %d before that", seed, ran, limit, before)
				}
			}
		}
		if told += signals; signals == 0 {
			late++ // no cycle came in time
		}
	}
	if told < 100 || late < 10 {
		t.Errorf("%d were told and %d came too late: the lives are too much alike", told, late)
	}
}
