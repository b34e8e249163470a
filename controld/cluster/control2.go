package cluster

import "fmt"

// controlJobs2 applies a verb to each target; one refusal does not stop the rest.
func (s *State) controlJobs2(c ControlJobs2) (any, error) {
	do, ok := s.verbs()[c.Verb]
	if !ok {
		return nil, fmt.Errorf("%q: %w", c.Verb, ErrBadVerb)
	}
	if err := limit("the number of jobs in one request", int64(len(c.Targets)), MaxJobsPerCall, ""); err != nil {
		return nil, err
	}
	ask := ControlJobs{Verb: c.Verb, By: c.By, Admin: c.Admin, Reason: c.Reason}
	if c.Signal != "" {
		return nil, &SpecError{"a signal of one's own is not supported yet"}
	}
	results := make([]ControlResult, len(c.Targets))
	for i, t := range c.Targets {
		results[i] = ControlResult{ID: t.ID, Err: s.control(t.ID, ask, do)}
		if len(t.Members) > 0 {
			results[i].Err = fmt.Errorf("members %s of job %d: %w", t.Members, t.ID, ErrNoJob)
		}
	}
	return results, nil
}
