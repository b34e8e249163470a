package model

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// OpenDependency is a dependency that is not met yet: all jobs of it, or any one, must have come to
// what Type says.
type OpenDependency struct {
	Type  string          `json:"type"` // after, afterok, afterany, afternotok, aftercorr or singleton
	Jobs  []JobID         `json:"jobs,omitempty"`
	Any   bool            `json:"any,omitempty"`
	Delay jobspec.Seconds `json:"delay,omitempty"`
}

// Types of dependencies.
const (
	NeedAfter      = "after"      // all have started, or have ended without
	NeedAfterOK    = "afterok"    // all have ended well
	NeedAfterAny   = "afterany"   // all have ended
	NeedAfterNotOK = "afternotok" // all have ended otherwise than well
	NeedAfterCorr  = "aftercorr"  // of an array: each element waits for the one with its index
	NeedSingleton  = "singleton"  // every older job of the same owner and name has ended
)

// Targets returns the jobs that an unfinished job depends on, ascending.
func (j *Job) Targets() []JobID {
	if j == nil || len(j.Dependencies) == 0 || j.State.Final() {
		return nil
	}
	if len(j.Dependencies) == 1 && len(j.Dependencies[0].Jobs) == 1 {
		return j.Dependencies[0].Jobs
	}
	var ids []JobID
	for i := range j.Dependencies {
		ids = append(ids, j.Dependencies[i].Jobs...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Blocked reports whether a waiting job may not start because of the jobs that it depends on. An
// array that follows another element by element is not blocked while some of its elements are
// ready.
func (j *Job) Blocked() bool {
	for i := range j.Dependencies {
		if j.Dependencies[i].Type != NeedAfterCorr || j.Children == nil {
			return true
		}
	}
	return len(j.Dependencies) > 0 && len(j.MayStart()) == 0
}

// MayStart returns the children that are still to be made and may start, as far as
// element-by-element dependencies are concerned.
func (j *Job) MayStart() ranges.Ranges {
	for i := range j.Dependencies {
		if j.Dependencies[i].Type == NeedAfterCorr {
			return j.Children.Waiting.Both(j.Children.Ready)
		}
	}
	return j.Children.Waiting
}

// Postpone moves the instant from which a job may start. The time that it has spent waiting for
// others is no reason to be reserved for.
func (j *Job) Postpone(until, now Instant) {
	j.Eligible = max(j.Eligible, until)
	if until > now && j.Eligible == until && j.Hold == NotHeld {
		j.Reason = Reason{Code: ReasonDependency, Until: until}
	}
}

// KeepsWaiting reports whether a job is held, and not cancelled, when what it needs can never come.
// A group of a job is never: the job as a whole has no use for one that waits for ever.
func KeepsWaiting(j *Job) bool {
	return j.Spec.OnDependencyFailure == "hold" && (j.Parent == 0 || j.Spec.Array != nil)
}

// HoldUnsatisfiable keeps a job from starting until a user says that it may do so all the same. An
// operator's hold stays one, and says why the operator might think twice.
func HoldUnsatisfiable(j *Job, why Reason) {
	if j.Hold == HeldByAdmin {
		j.Reason = Reason{Code: ReasonHeldAdmin, For: why.For, Text: why.Sentence()}
		return
	}
	j.Hold, j.Reason = HeldNever, why
}

// Unsatisfiable returns the reason of a job whose dependency can no longer be satisfied, because of a
// job with a name such as 7_3.
func Unsatisfiable(n *OpenDependency, id JobID, name string) Reason {
	why := Reason{Code: ReasonNeverMet, For: id, Text: n.Type}
	return why.Called(name)
}
