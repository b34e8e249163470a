package compare

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// EASY is EASY backfilling. The first job that does not fit gets a reservation. It holds for the
// earliest instant at which the job fits if all attempts run to their time limit. Others pass it
// only if they do not delay it.
func EASY(t *scratch.State) {
	s, f := baseline.NewStarter(t), reserve.NewForecast(t)
	var reservation *easyReservation
	for j := range baseline.Waiting(t) {
		switch {
		case reservation != nil:
			reservation.pass(s, j)
		case !s.StartWhole(j):
			reservation = reserveFor(f, j)
		}
	}
}

// easyReservation is room kept in one cycle for a job that does not fit.
type easyReservation struct {
	at   model.Instant
	keep *model.Reservation // reserved against jobs that run beyond at; nil: nothing
	seen queue.Frontier     // of jobs that end by at
	long queue.Frontier     // of jobs that run longer
}

// pass starts a job if that does not delay the reservation.
func (p *easyReservation) pass(t *baseline.Starter, j *model.Job) {
	short := reserve.StartedNow(t.State, j) <= p.at
	seen := &p.seen
	if !short {
		seen = &p.long
	}
	g := t.State.Gang(j)
	seen.Try(&g, func() bool {
		if p.keep != nil && !short {
			t.State.Room.Claim(p.keep)
			defer t.State.Room.Unclaim(p.keep.Job)
		}
		return t.StartWhole(j)
	})
}

// reserveFor looks ahead for a job: at which instant it fits, and which part of the present room it
// will need then.
func reserveFor(t *reserve.Forecast, j *model.Job) *easyReservation {
	g := t.State.Gang(j)
	ends := endings(t)
	// More room never hurts, so a binary search finds the first instant.
	n, _ := slices.BinarySearchFunc(ends, true, func(e reserve.Release, _ bool) int {
		if roomAt(t.State, ends, e.At).Fits(&g) {
			return 0
		}
		return -1
	})
	if n == len(ends) {
		return &easyReservation{at: scratch.Never}
	}
	p := &easyReservation{at: ends[n].At}
	then := roomAt(t.State, ends, p.at)
	spots, _ := then.Place(&g)
	need := map[int]model.Request{}
	for s, part := range g.Seated(spots) {
		need[s.Node] = need[s.Node].Plus(part.Request)
	}
	p.keep = keepFor(t.State, j, need, then)
	return p
}

// keepFor claims present room for a job: on each node its request less the room that will be freed
// there by then.
func keepFor(t *scratch.State, j *model.Job, need map[int]model.Request, then *fit.Room) *model.Reservation {
	r := &model.Reservation{Job: j.ID}
	for i, n := range t.View.Nodes() {
		q, needed := need[i]
		if !needed {
			continue
		}
		freed := then.Free(i).Minus(t.Room.Free(i))
		r.Claims = append(r.Claims, model.Claim{Node: n.Name, Resources: fit.AtLeast(q.Minus(freed)).Positive()})
	}
	return r
}

// endings lists the room that workers of all attempts will free, this cycle's starts included, in
// the order of their ends.
func endings(t *reserve.Forecast) []reserve.Release {
	list := slices.Concat(t.ByNode()...)
	reserve.SortReleases(list)
	return list
}

// roomAt returns the room when all workers have left that leave by an instant.
func roomAt(t *scratch.State, ends []reserve.Release, at model.Instant) *fit.Room {
	r := t.Room.Copy()
	for i := range ends {
		if ends[i].At > at {
			break
		}
		r.Release(ends[i].Node, ends[i].Room, ends[i].Gpus)
	}
	return r
}
