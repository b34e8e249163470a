package leader

import (
	"context"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
)

// trimEvery is the time between two checks of whether finished jobs can leave the state.
const trimEvery = 2 * time.Second

// trimHistory proposes to drop finished jobs from the state once a majority of the controllers has
// them on disk.
func (l *Leader) trimHistory(ctx context.Context) error {
	for pause(ctx, trimEvery) {
		v := l.Replica.View()
		upTo := trimmable(v, l.KeepRecords, l.KeepFor, replica.WallNow())
		if upTo <= v.Trimmed() {
			continue
		}
		if upTo = min(upTo, l.storedByMajority(ctx)); upTo <= v.Trimmed() {
			continue
		}
		if _, err := l.Replica.Propose(ctx, fsm.TrimHistory{UpTo: upTo}); err != nil {
			if lostLead(err) || ctx.Err() != nil {
				return err
			}
			l.Log.Warn("cannot drop finished jobs from the state", "up_to", upTo, "error", err)
		}
	}
	return context.Cause(ctx)
}

// trimmable returns the highest number up to which every job may leave the state. A job may leave
// if it is not among the newest keep, or ended more than keepFor ago. The wall clock decides only
// when to propose; the command names the number.
func trimmable(v *state.View, keep int, keepFor time.Duration, now model.UnixMS) int64 {
	upTo := v.LastSeq() - int64(keep)
	for _, j := range v.Finished(max(upTo, v.Trimmed())) {
		if now-j.Ended.Wall < model.UnixMS(keepFor.Milliseconds()) {
			break
		}
		upTo = j.Seq
	}
	return upTo
}

// storedByMajority returns the number up to which a majority of the controllers has every finished
// job on disk.
func (l *Leader) storedByMajority(ctx context.Context) int64 {
	stored := []int64{l.History.Last()}
	members := l.Replica.Members()
	for _, m := range members {
		p, ok := l.Peers.Find(m.Name)
		if !ok {
			continue // itself, or out of reach
		}
		s, err := l.Peers.StateOf(ctx, p)
		if err != nil {
			l.Log.Debug("cannot ask a controller about its history", "controller", m.Name, "error", err)
			continue
		}
		stored = append(stored, s.Records)
	}
	slices.Sort(stored)
	need := len(members)/2 + 1
	if len(stored) < need {
		return 0
	}
	return stored[len(stored)-need]
}
