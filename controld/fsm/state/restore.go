package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// loadJob stores a job from a snapshot, whose nodes have been loaded. It refuses what the rest of
// the package takes for granted.
func (s *State) loadJob(j *model.Job) error {
	if j.ID <= 0 || j.ID > s.v.lastJob || s.v.Job(j.ID) != nil || j.Seq > s.v.lastSeq {
		return fmt.Errorf("job %d: its number: %w", j.ID, model.ErrSnapshot)
	}
	var err error
	if j.Parent != 0 {
		err = s.adopt(j)
	} else {
		err = admission.CheckSpec(j.Spec)
	}
	if err != nil {
		return fmt.Errorf("job %d: %w: %w", j.ID, model.ErrSnapshot, err)
	}
	if err := lifecycle.CheckJob(j); err != nil {
		return fmt.Errorf("%w: %w", model.ErrSnapshot, err)
	}
	s.Pack(j)
	s.store(nil, j)
	if a := j.Live(); a != nil {
		return s.loadAttempt(j, a)
	}
	return nil
}

// adopt gives a child from a snapshot, which comes after its parent job and without a
// specification, that of its parent job.
func (s *State) adopt(j *model.Job) error {
	r := s.v.Job(j.Parent)
	switch {
	case r == nil || r.Children == nil || j.Children != nil || j.TaskNumber < 1 || j.TaskNumber > r.Children.Size ||
		j.ID != r.TaskID(j.TaskNumber):
		return &model.SpecError{Text: fmt.Sprintf("task %d of job %d: %v", j.TaskNumber, j.Parent, model.ErrNoTask)}
	case j.Spec != nil:
		return &model.SpecError{Text: "a task must not have a specification besides its parent's"}
	case r.Spec.Array == nil && j.TaskNumber > len(r.Spec.Groups):
		return &model.SpecError{Text: fmt.Sprintf("job %d has no group for task %d", j.Parent, j.TaskNumber)}
	}
	j.Spec, j.Texts = r.Spec, r.Texts
	return nil
}

// loadAttempt notes on the nodes what a live attempt holds.
func (s *State) loadAttempt(j *model.Job, a *model.Attempt) error {
	for i := range a.Workers {
		n, at := s.v.Node(a.Workers[i].Node)
		if n == nil {
			return fmt.Errorf("job %d worker %d: its place: %w", j.ID, i, model.ErrSnapshot)
		}
		h, _ := s.v.holdings.Get(int64(at))
		h.holdPorts(a.Ports(i))
	}
	for worker, p := range a.Held {
		n, at := s.v.Node(p.Node)
		if n == nil || slices.ContainsFunc(p.GPUs, func(g int) bool { return g < 0 || g >= len(n.GPUs) }) {
			return fmt.Errorf("job %d worker %d: its place: %w", j.ID, worker, model.ErrSnapshot)
		}
		h, _ := s.v.holdings.Get(int64(at))
		h.workers = append(h.workers, HeldWorker{j.ID, worker})
	}
	return nil
}

// derive makes what is neither in the snapshot nor kept while jobs are loaded.
func (s *State) derive() error {
	if len(s.v.config.Queues) == 0 {
		return fmt.Errorf("no configuration: %w", model.ErrSnapshot)
	}
	for i, r := range s.v.reservations {
		if i > 0 && s.v.reservations[i-1].Job >= r.Job {
			return fmt.Errorf("reservation for job %d is out of order: %w", r.Job, model.ErrSnapshot)
		}
	}
	if err := errors.Join(s.v.checkAccounts(), s.v.checkTokens()); err != nil {
		return fmt.Errorf("%w: %w", model.ErrSnapshot, err)
	}
	s.v.grid, s.gridEpoch = s.regrid(), s.epoch
	s.groups.Settle()
	for j := range s.v.dependents.Jobs() {
		s.v.unsettled = s.v.unsettled || s.Unsettled(j)
	}
	return nil
}
