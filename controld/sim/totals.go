package sim

import (
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// totals are the running totals of a simulation: integrals over time, and counts.
type totals struct {
	accounts []account
	byName   map[string]int32
	userOf   map[string]int32

	held       model.Vector // by all live attempts
	window     window       // the time over which utilisation is measured
	lost       int64        // thousandths of a GPU, ms
	preempts   int
	migrations int
	resizes    int

	suspensions int
	gaps        []int64        // ms between the end of a grace period and the next start
	absences    []int64        // the same with the grace period
	gone        []model.Vector // demands of the jobs that have ended, for a closed loop
	closed      bool           // the feed is a closed loop
	atLast      *snapshot      // of the cluster when the last job had arrived
	last        model.Instant  // arrival of the last job, if known
	story       *Story
}

// account holds the running totals of one account.
type account struct {
	name     string
	held     int64 // thousandths of a GPU
	cores    int64
	waiting  int
	since    model.Instant // the totals below count until then
	gpuMS    int64         // thousandths of a GPU, ms
	backlog  int64         // ms with pending jobs
	backHeld int64         // thousandths of a GPU, ms, held while jobs were pending
}

// window integrates the held capacity over a stretch of time.
type window struct {
	since                    model.Instant
	cores, memory, gpus, all float64 // amount times ms; all: ms
}

// advance brings the integral of the cluster up to the present, within the window.
func (b *totals) advance(e *engine) {
	until := e.now
	if b.last > 0 {
		until = min(until, b.last)
	}
	if b.window.since == 0 {
		return
	}
	if d := float64(until - b.window.since); d > 0 {
		w := &b.window
		w.cores += d * float64(b.held.Cores)
		w.memory += d * float64(b.held.Memory)
		w.gpus += d * float64(b.held.GPUs)
		w.all += d
		w.since = until
	}
}

// advance brings the integrals of an account up to the present. Call it before anything about the
// account changes.
func (a *account) advance(now model.Instant) {
	if d := int64(now - a.since); d > 0 {
		a.gpuMS += d * a.held
		if a.waiting > 0 {
			a.backlog += d
			a.backHeld += d * a.held
		}
	}
	a.since = now
}

// addArrival counts a new job.
func (b *totals) addArrival(e *engine, r *run) {
	if b.byName == nil {
		b.byName, b.userOf = map[string]int32{}, map[string]int32{}
	}
	if b.window.since == 0 {
		b.window.since = e.now
	}
	i, known := b.byName[r.job.Account]
	if !known {
		i = int32(len(b.accounts))
		b.byName[r.job.Account] = i
		b.accounts = append(b.accounts, account{name: r.job.Account, since: e.now})
	}
	u, known := b.userOf[r.job.User]
	if !known {
		u = int32(len(b.userOf))
		b.userOf[r.job.User] = u
	}
	r.account, r.user, r.gpus = i, u, r.job.Demand(r.job.Workers).GPUs
	a := &b.accounts[i]
	a.advance(e.now)
	a.waiting++
}

// addStart counts the capacity of a started job.
func (b *totals) addStart(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.advance(e.now)
	a.waiting--
	a.held, a.cores = a.held+r.held.GPUs, a.cores+r.held.Cores
	b.held = b.held.Plus(r.held)
	b.addReturn(e, r)
}

// addReturn counts for how long a preempted job was away that starts or goes on.
func (b *totals) addReturn(e *engine, r *run) {
	if r.preemptedAt > 0 {
		b.gaps = append(b.gaps, int64(e.now-r.preemptedAt))
		b.absences = append(b.absences, int64(e.now-r.noticed))
		r.preemptedAt = 0
	}
}

// addSuspended subtracts the capacity of an attempt that has paused, and addResumed counts it again.
func (b *totals) addSuspended(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.advance(e.now)
	a.held, a.cores = a.held-r.held.GPUs, a.cores-r.held.Cores
	b.held = b.held.Minus(r.held)
	b.suspensions++
}

func (b *totals) addResumed(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.advance(e.now)
	a.held, a.cores = a.held+r.held.GPUs, a.cores+r.held.Cores
	b.held = b.held.Plus(r.held)
	b.addReturn(e, r)
}

// setGPUs notes that a job holds another amount of GPUs.
func (b *totals) setGPUs(e *engine, r *run, gpus int64) {
	if more := gpus - r.held.GPUs; more != 0 {
		a := &b.accounts[r.account]
		a.advance(e.now)
		a.held += more
		b.held.GPUs += more
		r.held.GPUs = gpus
	}
}

// addDropped counts a job that was cancelled while it was pending.
func (b *totals) addDropped(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.advance(e.now)
	a.waiting--
}

// addHeld counts capacity that is kept for workers to come. No account is charged for it.
func (b *totals) addHeld(more model.Vector) { b.held = b.held.Plus(more) }

// addExit subtracts the capacity of an ended attempt. The time that it held room before it made
// progress is lost.
func (b *totals) addExit(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.advance(e.now)
	a.held, a.cores = a.held-r.held.GPUs, a.cores-r.held.Cores
	b.held = b.held.Minus(r.held)
	working := e.now
	if r.stopped > 0 {
		working = r.stopped
	}
	b.addLost(r, int64(min(r.from, working)-r.began))
	b.story.span(e, r)
}

// addLost counts time for which an attempt held its capacity without lasting progress.
func (b *totals) addLost(r *run, ms int64) { b.lost += ms * r.held.GPUs }

// addRequeued counts a stopped job as pending again.
func (b *totals) addRequeued(e *engine, r *run) {
	b.accounts[r.account].waiting++ // addExit has just advanced the account
	switch r.cause {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder:
		b.addPreemption(e, r, r.stopped)
	case model.CauseMigrate, model.CauseDrain:
		b.migrations++
	case model.CauseShrink, model.CauseGrow:
		b.resizes++
	}
}

// addPreemption counts that a job has left its room to another one, stopped or suspended. It was told
// so at an instant.
func (b *totals) addPreemption(e *engine, r *run, told model.Instant) {
	b.preempts++
	if r.preempted++; int(r.preempted) >= e.setup.maxPreempts {
		e.stuck = r.job.ID
	}
	r.preemptedAt, r.noticed = e.now, told
}

// addEnd counts a job that has ended for good.
func (b *totals) addEnd(r *run) {
	if b.closed {
		b.gone = append(b.gone, r.job.Demand(r.job.Workers))
	}
}

// snapshot is the free capacity of each node at one instant.
type snapshot struct {
	grid *grid.Grid
	gpus int64 // thousandths of a GPU that are free
}

// recordFreeAfterLast records the free capacity once the last job has arrived and its cycles are
// over.
func (b *totals) recordFreeAfterLast(e *engine) {
	if b.last > 0 && e.now >= b.last {
		b.recordFree(e)
	}
}

// recordFree records the free capacity, unless it is recorded already. A run that ends before the
// last job arrives ends with it.
func (b *totals) recordFree(e *engine) {
	if b.atLast != nil {
		return
	}
	s := &snapshot{grid: e.state.View().Grid()}
	for i := range s.grid.Len() {
		s.gpus += s.grid.Free(i).GPUs
	}
	b.atLast = s
}
