package main

import (
	"context"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// An outage of all controllers is judged only if no fault of a node is near it. A fault before may
// end a lease during the outage, and the report of that end comes after it.
const (
	beforeOutage = afterNode
	afterOutage  = 10 * time.Second
)

// quiet returns the outages of all controllers that no fault of a node is near: the witnesses must have kept
// every job then.
func quiet(windows []window) []window {
	var all []window
	for _, w := range windows {
		near := func(o window) bool {
			return slices.Contains(onNodes, o.kind) && o.to.After(w.from.Add(-beforeOutage)) &&
				o.from.Before(w.to.Add(afterOutage))
		}
		if w.kind == allDown && !slices.ContainsFunc(windows, near) {
			all = append(all, w)
		}
	}
	return all
}

// endedBy returns whether an outage has ended an attempt.
func endedBy(w window, a *api.Attempt) bool {
	return a.End != nil && (a.Cause == model.CauseLease || a.Cause == model.CauseNodeLost) && a.End.After(w.from) &&
		a.End.Before(w.to.Add(afterOutage))
}

// outages checks that outages of all controllers have ended no training.
func (v *judge) outages(ctx context.Context) error {
	all := quiet(v.windows)
	for _, t := range v.clients.trained {
		j, _, err := v.client.Job(ctx, t.id, api.Read{})
		if err != nil {
			return err
		}
		for i := range j.Attempts {
			for _, w := range all {
				if endedBy(w, &j.Attempts[i]) {
					v.violation("job %d: attempt %d ended as %s in an outage of all controllers of %v, although the witnesses "+
						"should have kept it alive", t.id, j.Attempts[i].N, j.Attempts[i].Cause, w.to.Sub(w.from).Round(time.Millisecond))
				}
			}
		}
	}
	v.note("%d outages of all controllers were longer than a lease, without a fault of a node at that time", len(all))
	return nil
}
