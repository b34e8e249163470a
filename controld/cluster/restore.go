package cluster

import (
	"fmt"
	"slices"
)

// loadJob stores a job from a snapshot, whose nodes have been loaded. It refuses what the rest of the package takes for granted.
func (s *State) loadJob(j *Job) error {
	if j.ID <= 0 || j.ID > s.v.lastJob || s.v.Job(j.ID) != nil || j.Seq > s.v.lastSeq {
		return fmt.Errorf("job %d: its number: %w", j.ID, ErrSnapshot)
	}
	if j.Parent != 0 {
		if err := s.adopt(j); err != nil {
			return fmt.Errorf("job %d: %w: %w", j.ID, ErrSnapshot, err)
		}
	}
	if err := checkForm(j.Spec); err != nil {
		return fmt.Errorf("job %d: %w: %w", j.ID, ErrSnapshot, err)
	}
	if err := checkState(j); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	s.pack(j)
	s.store(nil, j)
	if a := j.Live(); a != nil {
		return s.loadAttempt(j, a)
	}
	return nil
}

// adopt gives a child from a snapshot, which comes after its parent job and without a specification, that of its parent job.
func (s *State) adopt(j *Job) error {
	r := s.v.Job(j.Parent)
	switch {
	case r == nil || r.Family == nil || j.Family != nil || j.Member < 1 || j.Member > r.Family.Size || j.ID != r.ID+JobID(j.Member):
		return &SpecError{fmt.Sprintf("member %d of job %d: %v", j.Member, j.Parent, ErrNoMember)}
	case j.Spec != nil:
		return &SpecError{"a member has its record's specification and none of its own"}
	case r.Spec.Array == nil && j.Member > len(r.Spec.Groups):
		return &SpecError{fmt.Sprintf("job %d has no group for member %d", j.Parent, j.Member)}
	}
	j.Spec, j.texts = r.Spec, r.texts
	return nil
}

// loadAttempt notes on the nodes what a live attempt holds.
func (s *State) loadAttempt(j *Job, a *Attempt) error {
	for i := range a.Workers {
		n, at := s.v.Node(a.Workers[i].Node)
		if n == nil {
			return fmt.Errorf("job %d worker %d: its place: %w", j.ID, i, ErrSnapshot)
		}
		h, _ := s.v.holdings.get(int64(at))
		h.holdPorts(a.ports(i))
	}
	for worker, p := range a.held {
		n, at := s.v.Node(p.Node)
		if n == nil || slices.ContainsFunc(p.GPUs, func(g int) bool { return g < 0 || g >= len(n.GPUs) }) {
			return fmt.Errorf("job %d worker %d: its place: %w", j.ID, worker, ErrSnapshot)
		}
		h, _ := s.v.holdings.get(int64(at))
		h.workers = append(h.workers, heldWorker{j.ID, worker})
	}
	return nil
}

// derive makes what is neither in the snapshot nor kept while jobs are loaded.
func (s *State) derive() error {
	if len(s.v.config.Queues) == 0 {
		return fmt.Errorf("no configuration: %w", ErrSnapshot)
	}
	for i, r := range s.v.reservations {
		if i > 0 && s.v.reservations[i-1].Job >= r.Job {
			return fmt.Errorf("reservation for job %d is out of order: %w", r.Job, ErrSnapshot)
		}
	}
	s.v.grid, s.gridEpoch = s.regrid(), s.epoch
	s.regroupAll()
	s.requeueAllDependents()
	s.skipSettled()
	s.v.unsettled = len(s.due) > 0
	return nil
}
