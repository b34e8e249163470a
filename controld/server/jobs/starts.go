package jobs

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/forecast"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
)

// forecastTime bounds one play of a forecast. Reason: a person waits for the two of them. Jobs
// that are not reached in this time are unknown, and the answer says so.
const forecastTime = 2 * time.Second

// enough returns how a play of a forecast knows that it takes too long.
func enough(ctx context.Context) func() func() bool {
	return func() func() bool {
		end := time.Now().Add(forecastTime)
		return func() bool { return ctx.Err() != nil || time.Now().After(end) }
	}
}

// starts estimates when the waiting jobs of a list start. One user has one forecast at a time, so
// that the others keep a processor.
func (h *Handlers) starts(x *exchange.Exchange, l *listing, jobs iter.Seq[*model.Job], delta bool) (
	map[model.JobID]forecast.Estimate, error) {
	var end func()
	var err error
	if x.Idle(func() { end, err = h.planning.take(x.Context(), x.Caller.User.UID) }); err != nil {
		return nil, err
	}
	defer end()
	var ids []model.JobID
	for j := range jobs {
		if len(ids) == l.limit && !l.stream {
			break
		}
		if j.StillToStart() && seesJob(x, l, j, delta) {
			ids = append(ids, j.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return forecast.Of(x.View, h.Replica.Now(x.View), ids, enough(x.Context())), nil
}

// addStart fills in when a waiting job is expected to start.
func addStart(x *exchange.Exchange, out *api.Job, estimates map[model.JobID]forecast.Estimate) {
	if e, ok := estimates[out.ID]; ok {
		out.StartEarliest, out.StartLatest, out.Basis = presentStart(x, &e)
	}
}

// presentStart is an estimate as the caller may see it.
func presentStart(x *exchange.Exchange, e *forecast.Estimate) (earliest, latest *api.Time, basis string) {
	if e.Earliest != 0 {
		earliest = present.TimeOf(x.View, e.Earliest)
	}
	if e.Latest != 0 {
		latest = present.TimeOf(x.View, e.Latest)
	}
	hidden := func(id model.JobID) bool { return !maySeeJob(x, id) }
	if slices.ContainsFunc(e.Named, hidden) {
		return earliest, latest, e.Public
	}
	return earliest, latest, e.Basis
}
