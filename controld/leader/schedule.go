package leader

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/sched"
)

// schedule runs one cycle whenever the state has changed or an instant that matters has come.
// Changes that come together share a cycle.
func (l *Leader) schedule(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var cache sched.Cache
	for {
		changed := l.Replica.Changed()
		v := l.Replica.View()
		now := l.Replica.Now(v)
		begin := time.Now()
		plan, next := cache.Cycle(v, now, v.Config().Policy)
		took := time.Since(begin)
		l.metrics.cycles.Observe(took.Seconds())
		if !plan.Empty() {
			if err := l.commit(ctx, plan); err != nil {
				return err
			}
		} else if took > time.Millisecond && !pause(ctx, took) {
			return context.Cause(ctx) // a cycle that decided nothing may take half of one processor, not all of it
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(time.Duration(max(next-l.Replica.Now(v), 0)) * time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-timer.C:
		}
	}
}

// commit proposes a plan. The state refuses each action that no longer holds; the next cycle
// decides again.
func (l *Leader) commit(ctx context.Context, plan fsm.CommitPlan) error {
	refused := 0
	for part := range parts(plan, partMost) {
		result, err := l.Replica.Propose(ctx, part)
		if err != nil {
			return fmt.Errorf("commit plan based on %d: %w", plan.BasedOn, err)
		}
		refusals, _ := result.([]error)
		for i, r := range refusals {
			if r != nil {
				refused++
				l.Log.Debug("action refused", "based_on", plan.BasedOn, "action", i, "error", r)
			}
		}
	}
	l.metrics.actions.WithLabelValues("done").Add(float64(len(plan.Actions) - refused))
	l.metrics.actions.WithLabelValues("refused").Add(float64(refused))
	if refused > 0 && refused == len(plan.Actions) && !pause(ctx, 50*time.Millisecond) {
		return context.Cause(ctx) // a plan that is refused whole must not be decided again without a break
	}
	return nil
}

// partMost is the number of actions and places in one entry of the log. A place takes at most some
// 300 bytes: so many are well below the log's limit, and a plan that fills a large idle cluster is
// above it.
const partMost = 30_000

// parts divides a plan, in order, into plans with at most so many actions and places each, or one
// action.
func parts(plan fsm.CommitPlan, most int) iter.Seq[fsm.CommitPlan] {
	return func(yield func(fsm.CommitPlan) bool) {
		rest, first, size := plan.Actions, 0, 0
		for i, a := range rest {
			n := placesOf(a) + 1
			if size += n; size <= most || i == first {
				continue
			}
			if !yield(fsm.CommitPlan{BasedOn: plan.BasedOn, Actions: rest[first:i]}) {
				return
			}
			first, size = i, n
		}
		yield(fsm.CommitPlan{BasedOn: plan.BasedOn, Actions: rest[first:], Rotated: plan.Rotated, Would: plan.Would})
	}
}

func placesOf(a fsm.Action) int {
	switch {
	case a.Start != nil:
		return len(a.Start.Places)
	case a.Resize != nil:
		return len(a.Resize.Join) + len(a.Resize.Leave)
	}
	return 0
}
