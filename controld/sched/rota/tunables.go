package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/preempt"
)

// Tunables are the numbers that steer policy rota. Each has a unit, a reason and its evidence.
type Tunables struct {
	// PreemptsPerDay, in times: a job may be preempted so often within a day, if the policy block
	// does not say. Reason: more makes restarts dear, fewer keeps new jobs waiting. Evidence:
	// docs/papers.md, "The limit P of preemptions".
	PreemptsPerDay int
	// MinTurnMS, in ms: a job runs for so long before one that has had less takes its turn, if the
	// policy block does not say. Reason: shorter turns put off many jobs that are about to end.
	// Evidence: docs/papers.md, "HPC2N".
	MinTurnMS int64
	// LongTurnMS, in ms: the same for a job of a kind that by the history goes on for as long
	// again. Reason: such jobs hold room for long, so an early turn costs others least. Evidence:
	// docs/papers.md, "HPC2N".
	LongTurnMS model.Instant
	// Callers, in jobs of each class: room is sought for so many in one cycle. Reason: bounds the
	// time of a cycle. Evidence: a round number, chosen without measurement.
	Callers int
	// AgedAfter, in times as long as it has run: a job that has waited for so long counts as new.
	// Reason: no job waits without bound behind new ones. Evidence: a program with the rules of rota
	// has a p95 of 4.21 for HPC2N with this rule, and 4.22 without; the number is a round one.
	AgedAfter int64
	// AgedAfterTE, in times as long as it has run: the same for a job that left for a
	// trial-and-error job. Reason: it was just the cheapest, whatever it had had. Evidence: with 1
	// instead of 4, the p95 of best-effort jobs falls from 9.86, 3.44 and 2.06 to 8.53, 2.91 and
	// 2.01 on 8, 20 and 32 nodes.
	AgedAfterTE int64
	// RotationMS, in ms: the service order is checked so often. Reason: more often costs cycles and
	// changes little. Evidence: the p95 of HPC2N is 0.02 lower if the order is checked twice as often,
	// and no more if six times as often.
	RotationMS model.Instant
	// TurnPerCost, in times the cost of a preemption: a job runs for so long before others take its
	// turn; the cost is the usual grace of its queue and its start. Reason: keeps restarts below a
	// twentieth of the time. Evidence: a round number, chosen without measurement.
	TurnPerCost model.Instant
	// LevelsWorse, in service levels: a job must be so much worse than the one that takes its turn:
	// it has had at least four times as much. Reason: two jobs with about equal service would take
	// turns for ever, which helps neither. Evidence: docs/papers.md, "HPC2N".
	LevelsWorse int
	// WorthTimes, in times what is lost by it: a job that leaves for the equal part of another user
	// would have gone on for so much longer. Reason: what a job still needs is an estimate. Evidence:
	// with 2, 4 and 8 the p95 of best-effort jobs is 4.0, 3.4 and 3.4 at hard load.
	WorthTimes int64
	// TiredAfter, in preemptions: a job that was preempted so often runs longer each time before it
	// happens again. Reason: bounds what restarts cost one job. Evidence: a round number, chosen
	// without measurement.
	TiredAfter int
	// TiredFor, in times the usual turn: by so much longer for each further preemption. Reason: as
	// above. Evidence: a round number, chosen without measurement.
	TiredFor model.Instant
	// ScantPart, in parts of its fitting workers: an elastic job that would start with less than
	// one part gets room from others. Reason: with fewer workers it would hold its place for very
	// long. Evidence: docs/papers.md, "Elastic jobs with measured speeds".
	ScantPart int
	// GiveAfter, in times its restart cost: an elastic job keeps its size for so long before it
	// gives up workers. Reason: restarts must not outweigh work. Evidence: docs/papers.md, "Elastic
	// jobs with measured speeds".
	GiveAfter int64
	// GrowAfter, in times its restart cost: the same before it grows, if it has been restarted.
	// Reason: as above. Evidence: docs/papers.md, "Elastic jobs with measured speeds".
	GrowAfter int64
	// GiveBeyond, in times: a job that gives up workers still needs so many times what the other
	// job needs. Reason: short jobs first. Evidence: docs/papers.md, "Elastic jobs with measured
	// speeds".
	GiveBeyond int64
	// GrowPays, in times its restart cost: a job grows only if it will save so much. Reason: a
	// guess of what it needs may be wrong. Evidence: docs/papers.md, "Elastic jobs with measured
	// speeds".
	GrowPays int64
	// GrowsByPM, in thousandths: a running job gets more workers only if it will be faster by this.
	// Reason: as above. Evidence: docs/papers.md, "Elastic jobs with measured speeds".
	GrowsByPM int64
	// ElasticJobs, in waiting elastic jobs: so many are looked at in one cycle. Reason: bounds the
	// time of a cycle. Evidence: a round number, chosen without measurement.
	ElasticJobs int
	// GrowCheckMS, in ms: at the earliest it is checked again whether workers pay by then. Reason:
	// bounds the number of cycles. Evidence: a round number, chosen without measurement.
	GrowCheckMS int64
	// HeadroomPM, in thousandths of all GPUs: headroom is so much at most, if the policy block does
	// not say. Reason: more keeps best-effort jobs waiting. Evidence: docs/papers.md, "Hard load
	// and few GPUs".
	HeadroomPM int64
	// HeadroomCluster, in thousandths of a GPU: smaller clusters keep no headroom. Reason: the room
	// of one worker is a good part of them. Evidence: docs/papers.md, "Small clusters".
	HeadroomCluster int64
	// OneWorkerPart, in parts of the headroom: one worker is waited for with one part of each
	// resource at most. Reason: a few large workers would cost most of it. Evidence: with at most 5,
	// 3, 2 and 1 % of the cluster for one worker, the p95 of best-effort jobs is 20.0, 13.5, 13.7
	// and 13.6 on 8 nodes; a quarter of HeadroomPM is 1.25 %.
	OneWorkerPart int64
	// MissedPart, in workers: one of so many, the most demanding ones, may find less than is wanted.
	// Reason: as above. Evidence: a round number, chosen without measurement.
	MissedPart int
	// WaitForTE, in best-effort jobs: so many may have to wait to spare one trial-and-error job the
	// same. Reason: trial-and-error jobs are short and a user waits for them. Evidence:
	// docs/papers.md, "Saturation".
	WaitForTE int64
	// SoonTimes, in times the arrivals of a minute: so many nodes should be able to take one soon.
	// Reason: arrivals come in bursts. Evidence: the rule raised saturation from 9.14 to 9.25 jobs a
	// minute; the number is a round one.
	SoonTimes int64
	// BriefMS, in ms: a trial-and-error job that has run for longer is not expected to end soon.
	// Reason: most run for minutes. Evidence: a round number, chosen without measurement.
	BriefMS model.Instant
	// HeadroomPatience, in times ReserveAfterMS: a waiting job leaves all headroom free for so
	// long, and half of it after that. Reason: no job waits for ever beside free room. Evidence:
	// docs/papers.md, "Hard load and few GPUs".
	HeadroomPatience model.Instant
	// AgeWorthMS, in ms of waiting: make up for one unit of leftover resources: see
	// [place.Packer.Leftover]. Reason: with less, age decides where much waits and nodes are filled
	// worse; with much more, jobs that fit badly wait for longest. Evidence:
	// docs/decisions/0021-trials-of-placement.md, "Age against fit".
	AgeWorthMS int64
	// MaxPairs, in pairs of a job and a node: one choice looks at so many: the more nodes, the fewer
	// jobs. Reason: bounds the time of a cycle. Evidence: a round number, chosen without
	// measurement.
	MaxPairs int
	// BorrowPM, in thousandths of its quota: an account lends so much to trial-and-error jobs of
	// others, if the policy block does not say. Reason: a quota must be worth something. Evidence: a
	// round number, chosen without measurement.
	BorrowPM int64
	// MaxRepairs, in victims, and then accounts: so many are left out of a search because their
	// account lends no more. Reason: bounds the time of a cycle. Evidence: a round number, chosen
	// without measurement.
	MaxRepairs int
	// FreePart, in parts of the cluster: a preempted job that has had much leaves one part free
	// when it starts again. Reason: new jobs find room without preemption. Evidence:
	// docs/papers.md, "HPC2N".
	FreePart int64
	// FreeCluster, in GPUs, or cores: smaller clusters leave nothing free. Reason: a part of them
	// holds no job. Evidence: docs/papers.md, "Small clusters".
	FreeCluster int64
	// HadMuch, in service, as [model.Job.Attained]: a job that has had less does not back off.
	// Reason: short jobs are better finished. Evidence: docs/papers.md, "HPC2N".
	HadMuch int64
	// ArrivalMS, in ms: new jobs are expected for so long after the last one. Reason: without
	// arrivals free room is wasted. Evidence: docs/papers.md, "HPC2N".
	ArrivalMS model.Instant
	// MaxMoves, in jobs: so many move for one at most. Reason: each move is a restart. Evidence:
	// moves shortened the mean on 68 nodes of Philly from 3.78 to 3.52 h; the bound is a round
	// number.
	MaxMoves int
}

// tunables are the values in use. They never change.
var tunables = Tunables{
	PreemptsPerDay:   3,
	MinTurnMS:        20 * 60 * 1000,
	LongTurnMS:       10 * 60 * 1000,
	Callers:          64,
	AgedAfter:        4,
	AgedAfterTE:      1,
	RotationMS:       60_000,
	TurnPerCost:      20,
	LevelsWorse:      3,
	WorthTimes:       4,
	TiredAfter:       4,
	TiredFor:         6,
	ScantPart:        4,
	GiveAfter:        1,
	GrowAfter:        3,
	GiveBeyond:       2,
	GrowPays:         10,
	GrowsByPM:        1100,
	ElasticJobs:      64,
	GrowCheckMS:      60_000,
	HeadroomPM:       50,
	HeadroomCluster:  32_000,
	OneWorkerPart:    4,
	MissedPart:       20,
	WaitForTE:        20,
	SoonTimes:        2,
	BriefMS:          30 * 60 * 1000,
	HeadroomPatience: 6,
	AgeWorthMS:       16,
	MaxPairs:         1 << 15,
	BorrowPM:         100,
	MaxRepairs:       8,
	FreePart:         10,
	FreeCluster:      32,
	HadMuch:          4 * preempt.ServedLeast,
	ArrivalMS:        60 * 60 * 1000,
	MaxMoves:         16,
}
