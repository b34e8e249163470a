package model

import "slices"

// KeepsOnNodes reports whether the job's workers save to folders on their nodes, which are carried to
// where they run next.
func (j *Job) KeepsOnNodes() bool { return j.Spec.Checkpoint.OnNode() }

// LastRun returns the last attempt below before (0: of all) in which the worker with this number
// began its command; nil if it never did. An attempt does not count if its node was lost before it
// reported that the command had begun. Only a next attempt on that node finds the files that it
// saved there.
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

// NeedsFolder reports whether a node must keep the folder of an attempt's worker. It must if a
// worker of that number is to run there, or if a later attempt would begin with the folder.
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
