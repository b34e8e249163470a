package cluster

// submitJobs2 adds pending jobs, all or none.
func (s *State) submitJobs2(c SubmitJobs2) (any, error) {
	return s.submitJobs(c.SubmitJobs)
}
