package model

import "slices"

// KeepsOnNodes reports whether the job's workers save to folders on their nodes, which are carried to
// where they run next.
func (j *Job) KeepsOnNodes() bool { return j.Spec.Checkpoint.OnNode() }

// LastRun returns the last attempt before number before, or of all if before is 0, in which the
// command of the worker of that number began; nil if it never did. What an attempt did on a node that
// was lost before it said that the command had begun does not count: what it saved there is found
// only by a next attempt on that node.
func (j *Job) LastRun(worker, before int) *Attempt {
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		a := &j.Attempts[i]
		if (before == 0 || a.N < before) && worker >= 0 && worker < len(a.Workers) && a.Workers[worker].Started != 0 {
			return a
		}
	}
	return nil
}

// HasRun reports whether the command of any worker has begun in an attempt that is known.
func (j *Job) HasRun() bool {
	return slices.ContainsFunc(j.Attempts, func(a Attempt) bool {
		return slices.ContainsFunc(a.Workers, func(w Worker) bool { return w.Started != 0 })
	})
}

// NeedsFolder reports whether the folder of a worker of an attempt is needed on a node: a worker of
// that number is to run there, or a later attempt would begin with it.
func (j *Job) NeedsFolder(attempt, worker int, node string) bool {
	if j.State.Final() || !j.KeepsOnNodes() || worker < 0 {
		return false
	}
	last := j.LastRun(worker, 0)
	if last != nil && attempt < last.N {
		return false
	}
	if a := j.Live(); a != nil && worker < len(a.Workers) && a.Workers[worker].Node == node &&
		!a.Workers[worker].State.Final() {
		return attempt <= a.N
	}
	return last != nil && last.Workers[worker].Node == node
}
