package model

// EarlyAt returns the instant at which an attempt is to be told that its time limit comes, 0 if it
// need not be told, or was. A limit that was shortened since may make it an instant in the past. As
// long as it is suspended, or about to be, it cannot be told.
func (j *Job) EarlyAt(a *Attempt) Instant {
	k := j.Spec.Checkpoint
	if k == nil || k.BeforeLimit <= 0 || j.Limit <= 0 || a.Stop != nil || a.Early != 0 || a.Started == (Stamp{}) ||
		a.Suspended() || a.Suspending() {
		return 0
	}
	return max(a.Started.At, a.Started.At.After(j.Limit-k.BeforeLimit))
}
