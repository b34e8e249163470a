package main

import (
	"math/rand/v2"
	"time"
)

// kind is a sort of best-effort training job. Jobs of one kind are alike but for their account and
// priority.
type kind struct {
	name     string
	workers  int
	gpus     int // of each worker
	steps    int
	grace    int  // seconds
	stubborn bool // it does not save when it is asked to leave, and is killed
	weight   int  // how often it comes
}

// kinds are what best-effort jobs there are: 16 s to 48 s long, 1 to 4 GPUs.
var kinds = []kind{
	{name: "short", workers: 1, gpus: 1, steps: 400, grace: 20, weight: 4},
	{name: "long", workers: 1, gpus: 1, steps: 1200, grace: 20, weight: 3},
	{name: "pair", workers: 1, gpus: 2, steps: 700, grace: 20, weight: 2},
	{name: "gang", workers: 2, gpus: 1, steps: 700, grace: 20, weight: 2},
	{name: "wide", workers: 4, gpus: 1, steps: 600, grace: 20, weight: 1},
	{name: "stubborn", workers: 1, gpus: 1, steps: 500, grace: 2, stubborn: true, weight: 1},
}

// Properties of the jobs of a run.
const (
	stepTime  = 40 * time.Millisecond // of the trainer, beside its computation
	saveEvery = 50                    // steps
	firstJobs = 12                    // come at once, so that the cluster is full soon
	jobEvery  = 2200 * time.Millisecond
	teClients = 2 // each has one job with one GPU at a time, within what a user may hold
)

var (
	accounts   = []string{"speech", "vision"}
	priorities = []int{50, 50, 50, 60}
)

// arrival is a best-effort job of the plan.
type arrival struct {
	at       time.Duration
	kind     int
	account  string
	priority int
}

// trial is a trial-and-error job of the plan: how long after the one before, and how long it runs.
type trial struct{ after, runs time.Duration }

// kill is one of a leader: how long after the one before is whole again, and how long it stays down.
// Some wait until a job is asked to leave, and strike within striking of that.
type kill struct {
	after, down time.Duration
	leaving     bool
	then        time.Duration
}

// striking is how long a preemption takes, and a little more.
const striking = 120 * time.Millisecond

// plan is what a seed gives.
type plan struct {
	arrivals []arrival
	trials   [teClients][]trial
	kills    []kill
}

// makePlan returns the plan of a run that lasts for so long.
func makePlan(seed uint64, length time.Duration) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	var p plan
	for at := time.Duration(0); at < length; {
		p.arrivals = append(p.arrivals, arrival{at: at, kind: drawKind(r), account: accounts[r.IntN(len(accounts))],
			priority: priorities[r.IntN(len(priorities))]})
		if len(p.arrivals) >= firstJobs {
			at += time.Duration(r.ExpFloat64() * float64(jobEvery))
		}
	}
	for c := range p.trials {
		for at := time.Duration(0); at < length; {
			t := trial{between(r, 500*time.Millisecond, 5*time.Second), between(r, time.Second, 4*time.Second)}
			p.trials[c] = append(p.trials[c], t)
			at += t.after + t.runs
		}
	}
	for at := time.Duration(0); at < length; {
		k := kill{after: between(r, 3*time.Second, 12*time.Second), down: between(r, 300*time.Millisecond, 4*time.Second),
			leaving: r.IntN(2) == 0, then: between(r, 0, striking)}
		p.kills = append(p.kills, k)
		at += k.after
	}
	return p
}

// drawKind returns the index of a kind, by weight.
func drawKind(r *rand.Rand) int {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := r.IntN(total)
	for i, k := range kinds {
		if n -= k.weight; n < 0 {
			return i
		}
	}
	return 0
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
