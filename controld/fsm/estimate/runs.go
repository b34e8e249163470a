package estimate

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// LiveAttempt is an attempt in progress as a cycle asks about it. A large cluster has tens of
// thousands of them. Looking at each job, its attempts, its workers and their nodes would take most
// of a decision's time. A LiveAttempt never changes once it is stored.
type LiveAttempt struct {
	Job     *model.Job
	Attempt *model.Attempt
	// what its workers hold that have not ended: one for each node, in the order of its first worker
	// there
	Holds    []NodeResources
	Releases []NodeResources // what of it comes free when they end: all, unless it is being resized
	// when its time limit or its job's deadline is over; 0: it has none, does not run yet, or is being
	// stopped
	Ends model.Instant
	// when it is to be told that its time limit comes; 0: it need not, was told already, or does not run
	Early model.Instant

	Number     int // of the attempt
	BestEffort bool
	Stopping   bool          // it, or some of its workers, have been asked to stop, or to pause
	Paused     bool          // it is suspended and holds memory only
	Since      model.Instant // it was assigned; later by as long as it was suspended
	HeldSince  model.Instant // what it holds has not been charged since
	Started    model.Instant // its workers ran; 0: not yet
	Grace      int64         // ms that it may take to leave, as declared
	// ms between the times that it saves its state; 0: it saves when it is asked to leave, -1: it does
	// not
	CheckpointEvery int64
	GPUEquivalents  int64           // of its job, in thousandths of a GPU: see [model.Job.Worth]
	Total           model.Vector    // of all workers that its job asks for
	Displaced       []model.Instant // as in its job
	Queue           string

	Held model.Amounts // what it counts for in its leaf
}

// Leaves returns for which job an attempt gives its room back (0: for none). It also returns when
// the attempt was asked to leave, and when it will have left. It must be stopping.
func (r *LiveAttempt) Leaves() (beneficiary model.JobID, at, over model.Instant) {
	if s := r.Attempt.Stop; s != nil {
		return s.For, s.At, s.KillAt
	}
	if s := r.Attempt.Shrink; r.Attempt.Shrinking() {
		return s.For, s.At, s.KillAt
	}
	s := r.Attempt.Switch
	return s.For, s.At, s.At + model.PauseWithin
}

// NodeResources is room on the node at a position.
type NodeResources struct {
	Node int
	Room model.Request
}

// DeclaredGrace returns how many milliseconds a job may take to leave.
func DeclaredGrace(spec *jobspec.Job) int64 {
	if p := spec.Preemption; p != nil && p.GracePeriod > 0 {
		return int64(p.GracePeriod) * 1000
	}
	return model.DefaultGrace * 1000
}

// SavesEvery returns what Run.Saves says of a job.
func SavesEvery(spec *jobspec.Job) int64 {
	if spec.Checkpoint == nil {
		return -1
	}
	return int64(spec.Checkpoint.Interval) * 1000
}

// Equal reports whether two runs of one attempt say the same, but for its rooms.
func (r *LiveAttempt) Equal(o *LiveAttempt) bool {
	return r.Number == o.Number && r.Ends == o.Ends && r.Early == o.Early && r.BestEffort == o.BestEffort &&
		r.Stopping == o.Stopping && r.Paused == o.Paused && r.HeldSince == o.HeldSince && r.Since == o.Since &&
		r.Started == o.Started && r.Grace == o.Grace &&
		r.CheckpointEvery == o.CheckpointEvery && r.GPUEquivalents == o.GPUEquivalents &&
		r.Total == o.Total && slices.Equal(r.Displaced, o.Displaced) && r.Queue == o.Queue &&
		r.Held.Equal(&o.Held)
}

// Ends returns the instant at which an attempt ends at the latest by its time limit, 0 if it is
// being stopped or has none. The limit's clock stands still while it is suspended.
func Ends(j *model.Job, a *model.Attempt) model.Instant {
	if a.Stop != nil {
		return 0
	}
	return j.EndsAt(a)
}
