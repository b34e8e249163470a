package sim

import (
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
)

// Decision is one step that a simulation took for a job. Two builds decide alike if the lines of
// all their decisions are equal.
type Decision struct {
	At      int64 // ms of the trace's time
	Step    Step
	Job     int // 1 for the first job that arrived
	Attempt int
	Places  []model.Place // of all workers, in order
	Cause   model.Cause   // of an end, a preemption or a suspension
}

// Step is the kind of a [Decision].
type Step byte

// Steps.
const (
	StepStart   Step = 'S' // an attempt begins at its places
	StepEnd     Step = 'E' // an attempt leaves its places
	StepResize  Step = 'R' // a job gets notice to continue with other workers; the next start says which
	StepPreempt Step = 'D' // a job gets notice to stop; to move, the next start says where
	StepSuspend Step = 'P' // a job is told to pause where it is
	StepResume  Step = 'C' // a job is told to go on, with the GPUs of its places
	StepPack    Step = 'K' // a job is told to go on beside others on the GPU of its place
)

// causeNumbers are the causes in lines of decisions. A number is never given to another cause, so
// that lines of any two builds can be compared whatever the causes are called.
var causeNumbers = map[model.Cause]int{
	"": 0, model.CauseCompleted: 1, model.CauseFailed: 2, model.CauseTimeout: 3, model.CauseOOM: 4,
	model.CauseCancelled: 5,
	model.CauseTE:        6, model.CauseReclaim: 7, model.CauseOrder: 8, model.CauseShrink: 9,
	model.CauseGrow:    10,
	model.CauseDrain:   11,
	model.CauseMigrate: 12, model.CauseNodeLost: 13, model.CauseLaunch: 14, model.CauseLease: 15,
	model.CauseRequeue: 16, model.CauseSlice: 17, model.CausePack: 18,
}

// AppendLine appends a decision as one line: instant, step, job, attempt, number of the cause, and
// the place of each worker. A place is its node and, behind colons, the indices of its GPUs. This
// format is fixed: it is never renamed or reordered, so that builds of any age can be compared.
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
func (e *engine) decide(step Step, i int32, cause model.Cause) {
	if e.setup.Decided == nil {
		return
	}
	r := &e.runs[i]
	e.setup.Decided(Decision{At: e.ms(e.now), Step: step, Job: int(i) + 1, Attempt: int(r.attempt), Places: r.places,
		Cause: cause})
}
