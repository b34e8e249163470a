package model

// StartableAttempts returns for how many attempts a job asks now: 1 while it waits and is not set aside, of a parent job for all children that may start.
func (j *Job) StartableAttempts() int64 {
	switch {
	case j == nil || !j.StillToStart() || IsSetAside(j):
		return 0
	case j.Children != nil:
		return int64(j.Startable())
	}
	return 1
}
