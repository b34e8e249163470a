package leader

import (
	"context"
	"fmt"
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
		if v.Recovery().Holds() {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-changed:
			}
			continue
		}
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
	for part := range sched.Parts(plan, sched.PartMost) {
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
