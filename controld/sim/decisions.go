package sim

import (
	"strconv"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Decision is one step that a simulation took for a job. Two builds decide alike if the lines of
// all their decisions are equal.
type Decision struct {
	At      int64 // ms of the trace's time
	Step    Step
	Job     int // 1 for the first job that arrived
	Attempt int
	Places  []cluster.Place // of all workers, in order
	Cause   cluster.Cause   // of an end or a preemption
}

// Step is the kind of a [Decision].
type Step byte

// Steps.
const (
	StepStart   Step = 'S' // an attempt begins at its places
	StepEnd     Step = 'E' // an attempt leaves its places
	StepResize  Step = 'R' // a job gets notice to continue with other workers; the next start says which
	StepPreempt Step = 'D' // a job gets notice to stop
)

// causeNumbers are the causes in lines of decisions. A number is never given to another cause, so
// that lines of any two builds can be compared whatever the causes are called.
var causeNumbers = map[cluster.Cause]int{
	"": 0, cluster.CauseCompleted: 1, cluster.CauseFailed: 2, cluster.CauseTimeout: 3, cluster.CauseOOM: 4,
	cluster.CauseCancelled: 5,
	cluster.CauseTE:        6, cluster.CauseReclaim: 7, cluster.CauseOrder: 8, cluster.CauseShrink: 9,
	cluster.CauseGrow:    10,
	cluster.CauseDrain:   11,
	cluster.CauseMigrate: 12, cluster.CauseNodeLost: 13, cluster.CauseLaunch: 14, cluster.CauseLease: 15,
	cluster.CauseRequeue: 16,
}

// AppendLine appends a decision as one line: instant, step, job, attempt, the number of the cause,
// and the place of each worker as its node and, behind colons, the indices of its GPUs. This format
// is fixed: it is never renamed or reordered, so that builds of any age can be compared.
func (d *Decision) AppendLine(b []byte) []byte {
	b = strconv.AppendInt(b, d.At, 10)
	b = append(b, ' ', byte(d.Step), ' ')
	b = strconv.AppendInt(b, int64(d.Job), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(d.Attempt), 10)
	b = append(b, ' ')
	cause, known := causeNumbers[d.Cause]
	if !known {
		cause = -1
	}
	b = strconv.AppendInt(b, int64(cause), 10)
	for i := range d.Places {
		b = append(append(b, ' '), d.Places[i].Node...)
		for _, gpu := range d.Places[i].GPUs {
			b = strconv.AppendInt(append(b, ':'), int64(gpu), 10)
		}
	}
	return append(b, '\n')
}

// decide passes a decision about the live attempt of a job to Setup.Decided, if there is one.
func (e *engine) decide(step Step, i int32, cause cluster.Cause) {
	if e.setup.Decided == nil {
		return
	}
	r := &e.runs[i]
	e.setup.Decided(Decision{At: e.ms(e.now), Step: step, Job: int(i) + 1, Attempt: int(r.attempt), Places: r.places,
		Cause: cause})
}
