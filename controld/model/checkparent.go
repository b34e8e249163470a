package model

// Weight is what a job counts for in MaxJobs: a parent job counts with all its children, made or not, and these count no more for themselves.
func (j *Job) Weight() int {
	switch {
	case j.Children != nil:
		return 1 + j.Children.Size
	case j.Parent != 0:
		return 0
	}
	return 1
}
