package introspect

import "github.com/rota-hpc/rota/controld/model"

// Tunables are the numbers that steer how jobs share nodes and move. Each has a unit, a reason and
// its evidence.
type Tunables struct {
	// TurnsEvery, in ms: turns end at whole multiples of it. Reason: one entry of the log has the
	// turns of all nodes. Evidence: none measured; a turn of 60 s becomes 65 s at most.
	TurnsEvery model.Instant
	// AdmittedOfGroup, in jobs: for so many jobs that are alike a cycle looks for a node at most.
	// Reason: it bounds a cycle. Evidence: none needed; the next cycle goes on.
	AdmittedOfGroup int
	// WorthTrying, in thousandths of the rate in turns: from which expected gain on jobs are tried on
	// one GPU. Reason: expectation is an upper bound, and each trial that fails costs a suspension.
	// Evidence: in Gandiva's table 1 pairs below it lose.
	WorthTrying int64
	// SplitBelow, in thousandths of its rate alone: a job that runs more slowly beside others leaves
	// them for a GPU that comes free. Reason: below it the move is paid back within a turn or two.
	// Evidence: none measured.
	SplitBelow int64
	// MoveWorth, in times what it costs: a job moves only if it goes on for so much longer, or saves
	// so much by it. Reason: what is left is an estimate, and its restart disturbs others too.
	// Evidence: the default of resize_worth; for moves chosen without measurement.
	MoveWorth int64
	// MovesPerDay, in moves of one job in 24 hours: no job moves more often. Reason: as for
	// preemptions of one job. Evidence: the default of p, chosen without measurement.
	MovesPerDay int
	// CooldownMS, in ms: a job stays for so long where it has begun. Reason: its rate is to be known,
	// and a start is to pay. Evidence: a round number, chosen without measurement.
	CooldownMS int64
	// MovesPerHour, in moves of all jobs in an hour: no more are made, however large the cluster
	// is. Reason: a restart loads images and checkpoints from shared storage. Evidence:
	// cmd/lab/papers.md, "SpeCon". The run of 50 jobs on 8 workers makes some 23 moves in half an
	// hour. With 5 moves in an hour the jobs of Gandiva's mix on 48 GPUs take 7 % longer on
	// average.
	MovesPerHour int
	// RestartMS, in ms: a job stands still for so long when it is restarted, as long as that was never
	// measured. Reason: containers start in seconds, frameworks in tens of seconds. Evidence: a round
	// number, chosen without measurement.
	RestartMS int64
	// MissedRounds, in rounds of the jobs of a node: a suspended job that has not run for longer did
	// not have its share. Reason: one round is the most that it waits if all goes well. Evidence:
	// chosen without measurement.
	MissedRounds int64
	// MaxDonors, in nodes: for so many it is worked out whether their jobs could go elsewhere. Reason:
	// bounds the time of a cycle. Evidence: a round number, chosen without measurement.
	MaxDonors int
	// EvenCoolDown, in ms: a job that takes turns stays for so long on a node before it is evened out.
	// Reason: its class is not known for some intervals, and a move is to pay before the next one.
	// Evidence: three intervals of 30 s; cmd/lab/papers.md, "SpeCon".
	EvenCoolDown model.Instant
	// EvenWorth, in times what a move takes a job: it has run for so long on its node before it is
	// evened out. Reason: what has run for long is expected to go on for long. Evidence:
	// cmd/lab/papers.md, "SpeCon". With moves of 30 s, values from 1 to 5 change the run on 8
	// workers by at most half a percent (mean and makespan). 20 costs half of the gain. Where it
	// takes 5 s nothing depends on it.
	EvenWorth int64
	// EvenPerCycle, in jobs: so many are evened out in a cycle at most. Reason: it bounds a cycle.
	// Evidence: none needed; the next cycle goes on.
	EvenPerCycle int
	// Weigh, in yes or no: among jobs of one account those that still learn get longer turns.
	// Reason: their user sees sooner whether they learn. Evidence: cmd/lab/papers.md, "SpeCon". On
	// 8 workers 95 % of the quality comes up to 3 % sooner. The mean of the same account's jobs
	// gets 2 to 4 % longer.
	Weigh bool
}

// Limits are the values in use. They never change.
var Limits = Tunables{
	TurnsEvery: 5_000, AdmittedOfGroup: 64, WorthTrying: 1200, SplitBelow: 900,
	MoveWorth:    10,
	MovesPerDay:  3,
	CooldownMS:   1_800_000,
	MovesPerHour: 60,
	RestartMS:    30_000,
	MissedRounds: 3,
	MaxDonors:    4,
	EvenCoolDown: 90_000,
	EvenWorth:    5,
	EvenPerCycle: 8,
	Weigh:        true,
}
