package model

// EndsAt returns the instant at which an attempt runs out of time: by its time limit or its job's
// deadline, whichever comes first. It is 0 without either. As long as it does not run, its limit
// stands still.
func (j *Job) EndsAt(a *Attempt) (end Instant) {
	if j.Limit > 0 && a.Started != (Stamp{}) && !a.Suspended() {
		end = a.Started.At.After(j.Limit)
	}
	if j.Deadline > 0 && (end == 0 || j.Deadline < end) {
		end = j.Deadline
	}
	return end
}

// EarlyAt returns the instant at which an attempt is to be told that its time runs out. It is 0 if
// the attempt need not be told, or was told. A limit that was shortened since may make it an
// instant in the past. As long as it is suspended, or about to be, it cannot be told.
func (j *Job) EarlyAt(a *Attempt) Instant {
	k, end := j.Spec.Checkpoint, j.EndsAt(a)
	if k == nil || k.BeforeLimit <= 0 || end == 0 || a.Stop != nil || a.Early != 0 || a.Started == (Stamp{}) ||
		a.Suspended() || a.Suspending() {
		return 0
	}
	return max(a.Started.At, end-Instant(k.BeforeLimit)*1000)
}
