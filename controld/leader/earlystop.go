package leader

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// Pace of early stopping. Reports that come together are judged together. All arrays are judged
// again now and then. A losing task may have been on its way back to the queue, or its cancellation
// may have failed.
const (
	gatherReports = 50 * time.Millisecond
	judgeAgain    = 5 * time.Second
)

// stopTasksEarly cancels array tasks that cannot be among the best any more.
func (l *Leader) stopTasksEarly(ctx context.Context) error {
	again := time.NewTicker(judgeAgain)
	defer again.Stop()
	for pause(ctx, gatherReports) {
		if err := l.cancelLosers(ctx); err != nil {
			if lostLead(err) || ctx.Err() != nil {
				return err
			}
			l.Log.Warn("cannot cancel array tasks", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-l.Arrays.Due():
		case <-again.C:
		}
	}
	return context.Cause(ctx)
}

func (l *Leader) cancelLosers(ctx context.Context) error {
	lost := l.Arrays.Losers(l.Replica.View())
	if len(lost) == 0 {
		return nil
	}
	_, err := l.Replica.Propose(ctx, fsm.ControlJobs{Verb: model.VerbCancel, Targets: lost, Admin: true, System: true,
		Pruned: true, Reason: "others were better at the step of its stop block"})
	return err
}
