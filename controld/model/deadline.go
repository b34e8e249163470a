package model

// LatestStart returns the last instant at which a job with a deadline may start and still run for
// its whole time limit. A limit that only its queue has set does not count, as nobody said that the
// job takes that long. False: it has no deadline.
func (j *Job) LatestStart() (Instant, bool) {
	if j.Deadline == 0 {
		return 0, false
	}
	if j.Spec.TimeLimit > 0 || j.GroupSpec().TimeLimit > 0 {
		return j.Deadline - Instant(j.Limit)*1000, true
	}
	return j.Deadline, true
}

// PastDue reports whether a waiting job can no longer end by its deadline.
func (j *Job) PastDue(now Instant) bool {
	latest, ok := j.LatestStart()
	return ok && max(now, j.Eligible) > latest
}

// StillToStart reports whether a job, or some child of a parent job, is still to start.
func (j *Job) StillToStart() bool {
	if j.Children != nil {
		return len(j.Children.Waiting) > 0 && !j.State.Final()
	}
	return j.State == Pending
}

// Delayed returns why a job that is not held is not eligible yet: its begin time has not come, or
// it waits after a failure.
func (j *Job) Delayed() Reason {
	why := Reason{Code: ReasonBackoff, Until: j.Eligible}
	switch {
	case j.Attempt > 0:
	case j.Spec.Begin != "":
		why.Code = ReasonBegin
	default:
		why.Code = ReasonDependency
	}
	return why
}
