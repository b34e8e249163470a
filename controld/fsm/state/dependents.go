package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// DependentsOf returns the jobs that wait for another, ascending.
func (s *State) DependentsOf(target model.JobID) []model.JobID { return s.v.dependents.Of(target) }

// Progress returns how far a job has come, or a child of a parent job, which may not have been made
// yet.
func (v *View) Progress(id model.JobID) lifecycle.ParentProgress {
	if j := v.Job(id); j != nil {
		ended := j.State.Final()
		return lifecycle.ParentProgress{Started: ended || j.Started.At != 0, Ended: ended, Well: j.State == model.Completed}
	}
	r, n := v.ParentOf(id)
	switch {
	case r == nil:
		return lifecycle.ParentProgress{Started: true, Ended: true}
	case r.Children.Waiting.Has(n):
		return lifecycle.ParentProgress{}
	}
	return lifecycle.ParentProgress{Started: true, Ended: true, Well: !r.Children.Dropped.Has(n) &&
		!r.Children.Unsuccessful.Has(n)}
}

// Reconsider says what has become of a dependency of a job. A singleton whose predecessor has ended
// waits for the one before that.
func (s *State) Reconsider(j *model.Job, n *model.OpenDependency) lifecycle.Dependency {
	d := lifecycle.DependencyOn(n, s.v.Progress)
	if n.Type == model.NeedSingleton && d.Met {
		if before := s.names.OpenBefore(j.ID, index.NameOf(j)); before != 0 {
			d = lifecycle.Dependency{Open: []model.JobID{before}}
		}
	}
	return d
}

// Unsettled reports whether something of a job's dependencies has been decided and not been drawn
// conclusions from.
func (s *State) Unsettled(j *model.Job) bool {
	if j == nil || j.State.Final() {
		return false
	}
	for i := range j.Dependencies {
		n := &j.Dependencies[i]
		if d := s.Reconsider(j, n); d.Met || d.Never != 0 || !slices.Equal(d.Open, n.Jobs) {
			return true
		}
	}
	return false
}

// SetUnsettled notes whether more follows from jobs that have ended than one entry of the log may
// do.
func (s *State) SetUnsettled(is bool) { s.v.unsettled = is }

// WithDependencies yields the unfinished jobs that have dependencies, in order of id.
func (v *View) WithDependencies() iter.Seq[*model.Job] { return v.dependents.Jobs() }

// NoDependencies reports whether no unfinished job has dependencies.
func (v *View) NoDependencies() bool { return v.dependents.Empty() }

// NewestNamed returns the youngest job of an owner with a name, 0 if the state has none.
func (s *State) NewestNamed(uid uint32, name string) model.JobID {
	return s.names.Newest(index.Name{UID: uid, Name: name})
}

// OpenNamedBefore returns the youngest job older than one that has its owner and name and has not
// ended, 0 if there is none.
func (s *State) OpenNamedBefore(j *model.Job) model.JobID {
	return s.names.OpenBefore(j.ID, index.NameOf(j))
}

// SubmittedWithKey returns the ids of the jobs that an idempotency key stands for. It returns nil
// for an unknown key, and ErrKeyReused if the key stands for a submission with another digest.
func (s *State) SubmittedWithKey(uid uint32, key, digest string) ([]model.JobID, error) {
	return s.v.keys.Recall(uid, key, digest)
}

// RememberKey notes that an idempotency key stands for the jobs with some ids.
func (s *State) RememberKey(uid uint32, key, digest string, ids []model.JobID) {
	s.v.keys.Remember(index.NewKey(uid, key, digest, s.v.at, ids))
}

// ExpireKeys forgets idempotency keys that are a day old, and the oldest while there would be too
// many.
func (s *State) ExpireKeys() { s.v.keys.Expire(s.v.at) }

// checkSettled says whether conclusions were drawn from all that is known of a job's dependencies.
func (s *State) checkSettled(j *model.Job) error {
	if s.Unsettled(j) && !s.v.unsettled {
		return fmt.Errorf("the outcome of dependencies %+[2]v of job %[1]d is known, but had no effect", j.ID,
			j.Dependencies)
	}
	return nil
}
