package state

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// Check returns every invariant that does not hold, joined, or nil. It reads the whole state, so it
// takes time in proportion.
func (s *State) Check() error {
	a := &Auditor{s: s, touched: &touched{}}
	return a.begin()
}

// checkJob says whether a job is in the indexes where it belongs, and nowhere else.
func (s *State) checkJob(j *model.Job) error {
	live, isLive := s.v.live.Get(int64(j.ID))
	if isLive != (j.Live() != nil) || isLive && live != j {
		return fmt.Errorf("the index of live jobs is wrong for job %d", j.ID)
	}
	if done, ok := s.v.finished.Get(j.Seq); j.Seq > 0 && (!ok || done != j || j.Seq <= s.v.trimmed ||
		j.Seq > s.v.lastSeq) {
		return fmt.Errorf("history number %d does not match job %d", j.ID, j.Seq)
	}
	if j.ID > s.v.lastJob {
		return fmt.Errorf("job %d has an id that has not been assigned yet", j.ID)
	}
	if !j.StillToStart() {
		return nil
	}
	if s.groups.Holds(j) {
		return nil
	}
	return fmt.Errorf("pending job %d is not in its group", j.ID)
}

// checkOwners reports GPUs held beyond their capacity, by a worker with the whole GPU or by all
// workers that share it (A2).
func (s *State) checkOwners(i int) error {
	var taken [model.MaxGPUsPerNode]int64
	for _, held := range s.heldOn(i) {
		for _, g := range held.GPUs {
			if g >= len(s.v.nodes[i].GPUs) {
				return fmt.Errorf("node %s: GPU %d is held, but does not exist", s.v.nodes[i].Name, g)
			}
			if taken[g] += min(model.WholeGPU, held.Request.Active.GPUs); taken[g] > model.WholeGPU {
				return fmt.Errorf("node %s: %[3]d thousandths of GPU %[2]d are held", s.v.nodes[i].Name, g, taken[g])
			}
		}
	}
	return nil
}

// checkReservations says whether room is kept for jobs that wait or move, and for those only (A5).
func (s *State) checkReservations(note func(error)) {
	for i, r := range s.v.reservations {
		j := s.v.Job(r.Job)
		switch {
		case j == nil || !j.MayHaveReserved():
			note(fmt.Errorf("room is reserved for job %d, which is neither pending nor moving", r.Job))
		case i > 0 && s.v.reservations[i-1].Job >= r.Job:
			note(fmt.Errorf("reservation for job %d is out of order", r.Job))
		}
	}
}

// checkTask says whether a child is one of its parent's.
func (s *State) checkTask(j *model.Job) error {
	r := s.v.Job(j.Parent)
	switch {
	case r == nil || r.Children == nil || j.Children != nil || j.TaskNumber < 1 || j.TaskNumber > r.Children.Size ||
		j.ID != r.TaskID(j.TaskNumber):
		return fmt.Errorf("job %d is task %d of job %d, which is not its parent", j.ID, j.TaskNumber, j.Parent)
	case j.Spec != r.Spec:
		return fmt.Errorf("the specification of job %d differs from its parent's", j.ID)
	case r.Seq > 0 && (j.Seq == 0 || j.Seq > r.Seq):
		return fmt.Errorf("job %d outlives its parent", j.ID)
	}
	if f, n := r.Children, j.TaskNumber; f.Unsuccessful.Has(n) != (j.State.Final() && j.State != model.Completed) ||
		f.Waiting.Has(n) || f.Dropped.Has(n) {
		return fmt.Errorf("parent job %d has recorded a wrong outcome for task %d, whose state is %q", r.ID, n, j.State)
	}
	return nil
}
