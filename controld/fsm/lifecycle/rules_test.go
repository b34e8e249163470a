package lifecycle

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// displacing are the causes for which a job makes room, or moves.
var displacing = []model.Cause{model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow,
	model.CauseMigrate, model.CauseDrain}

func said(w *model.Worker)    { w.Finished = true }
func reached(w *model.Worker) { w.Total = true }
func leaving(w *model.Worker) { w.Leaving = true }

// zero sets what exit code 0 means after the job had to leave.
func zero(means string) func(*jobspec.Job) {
	return func(s *jobspec.Job) { s.Preemption = &jobspec.Preemption{ExitZero: means} }
}

func success(of string) func(*jobspec.Job) { return func(s *jobspec.Job) { s.Groups[0].Success = of } }

func once(s *jobspec.Job) { s.Preemption = &jobspec.Preemption{Requeue: new(bool)} }

// TestRules asks every rule on whose exit it is on both of its sides, under each cause that displaces.
func TestRules(t *testing.T) {
	saves := checkpoint(0)
	const goesOn = model.Cause("")
	for _, c := range []struct {
		name    string
		spec    *jobspec.Job
		workers []model.Worker
		cause   model.Cause // goesOn: that of the stop
		rule    model.EndRule
	}{
		{"never executed", spec(1), []model.Worker{worker(6, unbegun)}, goesOn, model.RuleNotExecuted},
		{"exited before the signal", spec(1, saves), []model.Worker{worker(6, own)}, model.CauseCompleted,
			model.RuleOwnExit},
		{"failed before the signal", spec(1, saves), []model.Worker{worker(6, own, code(1))}, model.CauseFailed,
			model.RuleOwnExit},
		{"asked for more before the signal", spec(1), []model.Worker{worker(6, own, code(85))}, model.CauseRequeue,
			model.RuleRequeueCode},
		{"another code", spec(1), []model.Worker{worker(6, code(1))}, goesOn, model.RuleDisplaced},
		{"by the signal", spec(1), []model.Worker{worker(6, signal(15))}, goesOn, model.RuleDisplaced},
		{"85", spec(1), []model.Worker{worker(6, code(85))}, goesOn, model.RuleDisplaced},
		{"0 without a checkpoint", spec(1), []model.Worker{worker(6)}, model.CauseCompleted, model.RuleExitZero},
		{"0 with a checkpoint", spec(1, saves), []model.Worker{worker(6)}, goesOn, model.RuleSaved},
		{"0 that means saved", spec(1, zero(jobspec.ExitSaved)), []model.Worker{worker(6)}, goesOn, model.RuleSaved},
		{"0 that means done", spec(1, saves, zero(jobspec.ExitDone)), []model.Worker{worker(6)}, model.CauseCompleted,
			model.RuleExitZero},
		{"0 and never again", spec(1, saves, once), []model.Worker{worker(6)}, model.CauseCompleted, model.RuleExitZero},
		{"finished", spec(1, saves), []model.Worker{worker(6, said)}, model.CauseCompleted, model.RuleFinished},
		{"finished, and failed", spec(1, saves), []model.Worker{worker(6, said, code(1))}, goesOn, model.RuleDisplaced},
		{"at its last step", spec(1, saves), []model.Worker{worker(6, reached)}, model.CauseCompleted, model.RuleTotal},
		{"the first of all says it", spec(2, saves), []model.Worker{worker(6, said), worker(6)}, model.CauseCompleted,
			model.RuleFinished},
		{"the second of all says it", spec(2, saves), []model.Worker{worker(6), worker(6, said)}, goesOn,
			model.RuleSaved},
		{"the leader says it", spec(2, saves, success(model.SuccessLeader)),
			[]model.Worker{worker(6, said), worker(6, signal(15))}, model.CauseCompleted, model.RuleFinished},
		{"any of any says it", spec(2, saves, success(model.SuccessAny)),
			[]model.Worker{worker(6, signal(15)), worker(6, said)}, model.CauseCompleted, model.RuleFinished},
		{"one of any that failed says it", spec(2, saves, success(model.SuccessAny)),
			[]model.Worker{worker(6, said, signal(15)), worker(6)}, goesOn, model.RuleSaved},
		{"0 and killed for memory", spec(1), []model.Worker{worker(6, oom)}, goesOn, model.RuleDisplaced},
		{"finished, and killed for memory", spec(1, saves), []model.Worker{worker(6, said, oom)}, goesOn,
			model.RuleDisplaced},
		{"85 and killed for memory", spec(1, saves), []model.Worker{worker(6, code(85), oom)}, goesOn, model.RuleDisplaced},
		{"0 before the signal, and killed for memory", spec(1, saves), []model.Worker{worker(6, own, oom)},
			model.CauseOOM, model.RuleOwnExit},
		{"a worker that leaves alone is not judged", spec(2), []model.Worker{worker(6, own), worker(6, code(1), leaving)},
			model.CauseCompleted, model.RuleOwnExit},
	} {
		for _, cause := range displacing {
			want := c.cause
			if want == goesOn {
				want = cause
			}
			a := &model.Attempt{Workers: c.workers, Stop: &model.Stop{Cause: cause, At: 5}}
			got := OutcomeOf(&model.Job{Spec: c.spec, Workers: len(c.workers)}, a)
			if got.Cause != want || got.Rule != c.rule || got.Rule.Text() == "" {
				t.Errorf("%s, %s: it ended with %s by rule %s, want %s by %s", c.name, cause, got.Cause, got.Rule, want, c.rule)
			}
		}
	}
}

// TestRulesOfOtherStops asks the rules for stops that displace nothing.
func TestRulesOfOtherStops(t *testing.T) {
	for _, c := range []struct {
		stop, cause model.Cause
		rule        model.EndRule
		own         bool // the job asked for the stop
		worker      model.Worker
	}{
		{model.CauseCancelled, model.CauseCancelled, model.RuleCancelled, false, worker(6, said)},
		{model.CauseCancelled, model.CauseCancelled, model.RuleNotExecuted, false, worker(6, unbegun)},
		{model.CauseCancelled, model.CauseCompleted, model.RuleOwnExit, false, worker(6, own)},
		{model.CauseCancelled, model.CauseCancelled, model.RuleCancelled, false, worker(6, own, code(85))},
		{model.CauseRequeue, model.CauseRequeue, model.RuleRequeued, false, worker(6, said)},
		{model.CauseRequeue, model.CauseRequeue, model.RuleAsked, true, worker(6, own)},
		{model.CauseRequeue, model.CauseCompleted, model.RuleOwnExit, false, worker(6, own)},
		{model.CauseTimeout, model.CauseTimeout, model.RuleTimeLimit, false, worker(6, said)},
		{model.CauseTimeout, model.CauseTimeout, model.RuleNotExecuted, false, worker(6, unbegun)},
		{model.CauseTimeout, model.CauseRequeue, model.RuleRequeueCode, false, worker(6, code(85))},
		{model.CauseTimeout, model.CauseCompleted, model.RuleOwnExit, false, worker(6, own)},
		{model.CauseNodeLost, model.CauseNodeLost, model.RuleSaved, false, worker(6)},
		{model.CauseNodeLost, model.CauseNodeLost, model.RuleLost, false, worker(6, code(1))},
		{model.CauseLease, model.CauseLease, model.RuleLost, false, worker(6, leased)},
		{"", model.CauseCompleted, model.RuleExit, false, worker(5)},
		{"", model.CauseFailed, model.RuleExit, false, worker(5, code(1))},
		{"", model.CauseRequeue, model.RuleRequeueCode, false, worker(5, code(85))},
	} {
		a := &model.Attempt{Workers: []model.Worker{c.worker}}
		if c.stop != "" {
			a.Stop = &model.Stop{Cause: c.stop, At: 5, Own: c.own}
		}
		got := OutcomeOf(&model.Job{Spec: spec(1, checkpoint(0)), Workers: 1}, a)
		if got.Cause != c.cause || got.Rule != c.rule {
			t.Errorf("stop %q, worker %+v: it ended with %s by rule %s, want %s by %s", c.stop, c.worker, got.Cause, got.Rule,
				c.cause, c.rule)
		}
	}
}
