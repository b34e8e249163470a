package sim

import (
	"github.com/rota-hpc/rota/controld/cluster"
)

// books are the running totals of a simulation: integrals over time, and counts.
type books struct {
	accounts []account
	byName   map[string]int32
	users    []string
	userOf   map[string]int32

	held       cluster.Vector // by all live attempts
	window     window         // what utilisation is measured over
	lost       int64          // thousandths of a GPU, ms
	preempts   int
	migrations int
	resizes    int
	gaps       []int64          // ms between the end of a grace and the next start
	absences   []int64          // the same with the grace
	gone       []cluster.Vector // demands of the jobs that have ended, if a loop wants to know
	closed     bool             // a loop does
	atLast     *snapshot        // of the cluster when everybody had arrived
	last       cluster.Instant  // arrival of the last job, if known
	story      *Story
}

// account is one account's running totals.
type account struct {
	name     string
	jobs     int
	held     int64 // thousandths of a GPU
	cores    int64
	waiting  int
	since    cluster.Instant // the totals below are of before
	gpuMS    int64           // thousandths of a GPU, ms
	backlog  int64           // ms with jobs waiting
	backHeld int64           // thousandths of a GPU, ms, held meanwhile
}

// window integrates what is held over a stretch of time.
type window struct {
	since                    cluster.Instant
	cores, memory, gpus, all float64 // amount times ms; all: ms
}

// pass brings the integral of the cluster up to the present, as far as it counts.
func (b *books) pass(e *engine) {
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

// settle brings the integrals of an account up to the present. It is called before anything about it changes.
func (a *account) settle(now cluster.Instant) {
	if d := int64(now - a.since); d > 0 {
		a.gpuMS += d * a.held
		if a.waiting > 0 {
			a.backlog += d
			a.backHeld += d * a.held
		}
	}
	a.since = now
}

// arrived takes a new job in.
func (b *books) arrived(e *engine, r *run) {
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
		u = int32(len(b.users))
		b.userOf[r.job.User] = u
		b.users = append(b.users, r.job.User)
	}
	r.account, r.user, r.gpus = i, u, r.job.Demand(r.job.Workers).GPUs
	a := &b.accounts[i]
	a.settle(e.now)
	a.waiting++
	a.jobs++
}

// started notes that a job holds room.
func (b *books) started(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.settle(e.now)
	a.waiting--
	a.held, a.cores = a.held+r.held.GPUs, a.cores+r.held.Cores
	b.held = plus(b.held, r.held)
	if r.displaced > 0 {
		b.gaps = append(b.gaps, int64(e.now-r.displaced))
		b.absences = append(b.absences, int64(e.now-r.noticed))
		r.displaced = 0
	}
}

// hold notes that so much more is kept for workers to come, which nobody is charged for.
func (b *books) hold(more cluster.Vector) { b.held = plus(b.held, more) }

// exited notes that an attempt has given its room back. What it held before it made progress is lost.
func (b *books) exited(e *engine, r *run) {
	a := &b.accounts[r.account]
	a.settle(e.now)
	a.held, a.cores = a.held-r.held.GPUs, a.cores-r.held.Cores
	b.held = minus(b.held, r.held)
	working := e.now
	if r.stopped > 0 {
		working = r.stopped
	}
	b.lose(r, int64(min(r.from, working)-r.assigned))
	b.story.span(e, r)
}

// lose notes time for which an attempt has held its room in vain.
func (b *books) lose(r *run, ms int64) { b.lost += ms * r.held.GPUs }

// displaced notes that a stopped job waits again.
func (b *books) displaced(e *engine, r *run) {
	b.accounts[r.account].waiting++ // settled by exited just now
	switch r.cause {
	case cluster.CauseTE, cluster.CauseReclaim, cluster.CauseOrder:
		b.preempts++
		if r.preempted++; int(r.preempted) >= e.setup.displaced {
			e.stuck = r.job.ID
		}
		r.displaced, r.noticed = e.now, r.stopped
	case cluster.CauseMigrate, cluster.CauseDrain:
		b.migrations++
	case cluster.CauseShrink, cluster.CauseGrow:
		b.resizes++
	}
}

// finished notes that a job has ended for good.
func (b *books) finished(_ *engine, r *run) {
	if b.closed {
		b.gone = append(b.gone, r.job.Demand(r.job.Workers))
	}
}

// snapshot is what is free on each node at one instant.
type snapshot struct {
	grid *cluster.Grid
	gpus int64 // thousandths of a GPU that are free
}

// photograph notes what is free once the last job has arrived and its cycles are over.
func (b *books) photograph(e *engine) {
	if b.last > 0 && e.now >= b.last {
		b.photographNow(e)
	}
}

// photographNow notes what is free now, if nothing has been noted yet: a run that ends before the last job arrives ends with that.
func (b *books) photographNow(e *engine) {
	if b.atLast != nil {
		return
	}
	s := &snapshot{grid: e.state.View().Grid()}
	for i := range s.grid.Len() {
		s.gpus += s.grid.Free(i).GPUs
	}
	b.atLast = s
}
