// Package sched decides which jobs start, stop and wait.
//
// [Cycle] is a function from a view of the state to a plan: it reads no clock, keeps nothing between calls and changes nothing.
// The plan becomes real when cluster.Apply has checked each action with the same feasibility function that decided. Phases run in
// the order in which Cycle names them, one file each; a phase reads the trial, a scratch copy of the grid on which it tries
// things out, and appends actions.
//
// # Who goes first
//
// Trial-and-error jobs before best-effort ones, then the higher priority, then the older job. Held jobs and jobs in back-off
// stand aside and block nobody.
//
// # Bounded bypass
//
// A job that does not fit lets later ones pass, so that no GPU idles while somebody could use it. To keep it from waiting for
// ever, the first blocked job of each account, its head, gets a reservation when it has waited for ReserveAfterMS or when MaxBypass starts
// have gone past it; only the first head without a reservation is counted. An account holds at most one reservation and the
// cluster at most [MaxReservations]. See reserve.go for the nodes that are chosen. Each start names the head that it goes past, and
// Apply counts it in Job.Bypassed: the bound survives a change of leader and costs no log entry of its own.
// A reservation binds everybody, also jobs that arrive later and come first in the order; it ends when its job starts, stops
// waiting, or ReserveHoldMS is over, and is then made anew for the nodes that are soonest at that time.
//
// # Policies
//
// What is said above is policy standard, which clusters of the first release have. A policy is a function that runs after expire, named in the table below. Those that take room from
// running jobs do so in one way: a plan keeps the room for the job that is to get it, by a firm reservation that goes before all others, and
// asks its holders to leave, each with the job's name. The state refuses such a stop when the job does not wait any more. Whoever has left
// for a job that is gone goes first when he is back. See fitgpp.go for the policies of the FitGpp paper, rota.go for what Rota makes of
// them, search.go for the cheapest set of jobs that lets another start, turns.go for turns among best-effort jobs, gather.go
// for small ones that move so that a large one finds room in one piece.
//
// # Where to read
//
// Begin here, with expire.go, order.go and place.go: they are the whole of policy standard. Each policy below is a function of a few lines that names its
// phases in order, in a file of its own or, if it is there to compare with, in baseline.go and ranked.go.
//
//   - what a cycle works on: trial.go, desk.go (what it keeps for the next one), and the package fit (nodes and GPUs)
//   - who is next: order.go, frontier.go and glance.go (who need not be asked); rota.go and foresee.go (service); fair.go, tally.go, queue.go and
//     accounts.go (shares, with the package share)
//   - where it goes: pack.go, match.go, frag.go, spot.go, sharing.go (where GPUs are shared)
//   - room that is kept: reserve.go (for heads), headroom.go and outlook.go (for trial-and-error jobs), comeback.go (for new ones), promise.go (whether it will come)
//   - room that others give up: roster.go (who could), price.go and waste.go (what that costs), search.go, across.go, unshare.go and menu.go (who
//     does), for whom: rota.go, borrow.go and telimit.go (trial-and-error jobs), reclaim.go with debtors.go (accounts), turns.go and gather.go
//     (best-effort jobs)
//   - elastic jobs: flexible.go, shrink.go, grow.go; stretch.go (policy elastic); surplus.go, dealing.go and fitting.go (policy rota)
//   - what users are told: the files explain*.go, shares.go
package sched

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// MaxReservations bounds the reservations of the whole cluster: each one keeps room idle, and beyond a few heads the room ahead
// is guesswork anyway.
const MaxReservations = 16

// Cycle decides what to do at now, given everything in v. The plan may be empty: see [cluster.CommitPlan.Empty]. One without actions may
// still note that it was looked whose turn it is, so that this is not done again at every event. The second result is the next instant, later
// than now, at which another cycle could decide otherwise although nothing has changed by then; 0 if there is none. Who runs many cycles
// keeps a [Desk] for them.
func Cycle(v *cluster.View, now cluster.Instant, p cluster.Policy) (cluster.CommitPlan, cluster.Instant) {
	return new(Desk).Cycle(v, now, p)
}

// policies are what may follow the phase expire, by [cluster.Policy].Name; "" is standard. The state does not know their names, so a
// name that is not here means standard too: a cluster never stands still because of its configuration. New clusters
// have [cluster.NewPolicy].
var policies = map[string]func(*trial){
	"": standard, "standard": standard, "rota": rota, "fairshare": fairshare,
	"fifo": fifo, "backfill": backfill, "easy": easy, "sjf": shortest, "srtf": remaining, "las": las, "spread": spreadOut,
	"fitgpp": fitgpp, "lrtp": lrtp, "rand": random,
	"elastic": elastic, "static": static, "dragon": dragon,
}

// Policies returns the names that [cluster.Policy].Name can have, in order; "" is also one, that of standard.
func Policies() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(policies)), func(name string) bool { return name == "" })
}

// standard serves jobs in the order of [compare] and disturbs none that run.
func standard(t *trial) { place(t, order(t)) }
