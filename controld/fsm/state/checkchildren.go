package state

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// checkTasksOf compares a parent job with its children in the state, and says whether a child is
// one of its parent's.
func (s *State) checkTasksOf(j *model.Job) error {
	if j.Parent != 0 {
		return s.checkTask(j)
	}
	if j.Children == nil {
		if parent, n := s.v.ParentOf(j.ID); parent != nil {
			return fmt.Errorf("job %d has the id of task %d of job %d", j.ID, n, parent.ID)
		}
		return nil
	}
	f := j.Children
	var live, completed, failed, cancelled int
	for n := range f.Size {
		m := s.v.Job(j.ID + model.JobID(n+1))
		switch {
		case m == nil:
		case f.Unsuccessful.Has(n+1) != (m.State.Final() && m.State != model.Completed):
			return fmt.Errorf("parent job %d has it wrong how task %d ended, whose state is %q", j.ID, n+1, m.State)
		case m.Parent != j.ID || f.Waiting.Has(n+1) || f.Dropped.Has(n+1):
			return fmt.Errorf("job %d has the id of task %d of job %d, which has not been made", m.ID, n+1, j.ID)
		case !m.State.Final():
			live++
		case m.State == model.Completed:
			completed++
		case m.State == model.Cancelled:
			cancelled++
		default:
			failed++
		}
	}
	whole := s.v.trimmed == 0
	if live != f.Live || completed > f.Completed || failed > f.Failed || cancelled > f.Cancelled ||
		whole && live+completed+failed+cancelled != f.Made() {
		return fmt.Errorf("parent job %d counts %+v of tasks that are %d live, %d completed, %d failed and %d cancelled", j.ID,
			*f, live, completed, failed, cancelled)
	}
	if j.ID+model.JobID(f.Size) > s.v.lastJob {
		return fmt.Errorf("parent job %d: ids of its tasks were not given yet", j.ID)
	}
	return nil
}

func (s *State) checkTask(j *model.Job) error {
	r := s.v.Job(j.Parent)
	switch {
	case r == nil || r.Children == nil || j.Children != nil || j.TaskNumber < 1 || j.TaskNumber > r.Children.Size ||
		j.ID != r.ID+model.JobID(j.TaskNumber):
		return fmt.Errorf("job %d is task %d of job %d, which is no such parent job", j.ID, j.TaskNumber, j.Parent)
	case j.Spec != r.Spec:
		return fmt.Errorf("job %d has another specification than its parent", j.ID)
	case r.Seq > 0 && (j.Seq == 0 || j.Seq > r.Seq):
		return fmt.Errorf("job %d outlives its parent", j.ID)
	}
	return nil
}
