package state

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// Join takes the room of the workers that will join a job that is resized, or none if they do not
// all fit. Positions are those of all places of the next attempt.
func (s *State) Join(j *model.Job, a *model.Attempt, r *model.Resize, at []int) error {
	e, _ := j.Elastic()
	first := e.First + j.Size() - len(r.Leave)
	g, request := s.ownGrid(), j.RequestOf(e.First)
	for k, p := range r.Join {
		node, gpus := at[first+k], grid.OrNone(p.GPUs)
		why := grid.Fits(g, node, request, gpus)
		if why != nil && request.Exclusive && slices.Contains(at[e.First:first+k], node) && g.Joins(node, request, gpus) {
			why = nil
		}
		if why != nil {
			for i := range k {
				g.Release(at[first+i], request, r.Join[i].GPUs)
			}
			return &model.FitError{Job: j.ID, Reason: *why}
		}
		g.Allocate(node, request, gpus)
	}
	for k := range r.Join {
		s.ownHolding(at[first+k]).add(HeldWorker{j.ID, len(a.Workers) + k})
	}
	return nil
}

func (h *holding) add(w HeldWorker) {
	k, _ := slices.BinarySearchFunc(h.workers, w, HeldWorker.compare)
	h.workers = slices.Insert(h.workers, k, w)
}

func (h *holding) remove(w HeldWorker) {
	if k, ok := slices.BinarySearchFunc(h.workers, w, HeldWorker.compare); ok {
		h.workers = slices.Delete(h.workers, k, k+1)
	}
}

// Suspend gives back what the workers of an attempt hold that is being suspended, but for their
// memory. The attempt says already that it is suspended.
func (s *State) Suspend(j *model.Job, a *model.Attempt) {
	g := s.ownGrid()
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.State.Final() {
			continue
		}
		_, at := s.v.Node(w.Node)
		keeps := j.Holds(a, i)
		g.Release(at, keeps.Plus(j.FreedBySuspension(a, i)), w.GPUs)
		g.Allocate(at, keeps, []int{})
		s.ownHolding(at).freed = s.v.at
		w.Had, w.GPUs = w.GPUs, nil
	}
}

// Resume takes room for the workers of a suspended attempt, each with GPUs of its node. It takes
// nothing if they do not all fit. Room that others leave for a job may not be taken. Room kept for
// blocked heads may, because it was not theirs when the attempt was suspended.
func (s *State) Resume(j *model.Job, a *model.Attempt, gpus [][]int) error {
	g := s.ownGrid()
	lifted := s.liftHeads(g)
	defer lifted.Restore()
	for i := range a.Workers {
		w, r := &a.Workers[i], j.RequestOf(i)
		if w.State.Final() {
			continue
		}
		_, at := s.v.Node(w.Node)
		g.Release(at, r.Suspended(), nil)
		why := grid.FitsAgain(g, at, r, grid.OrNone(gpus[i]))
		if why == nil {
			g.Allocate(at, r, grid.OrNone(gpus[i]))
			continue
		}
		g.Allocate(at, r.Suspended(), []int{})
		s.undoResume(j, a, gpus, i)
		return &model.FitError{Job: j.ID, Reason: *why}
	}
	return nil
}

// liftHeads lifts the claims of blocked heads. The caller restores them before it returns.
func (s *State) liftHeads(g *grid.Grid) grid.LiftedClaims {
	lifted := grid.LiftNone(g)
	for _, r := range s.v.reservations {
		if !r.ForPreemptor {
			s.v.eachClaim(r, lifted.Lift)
		}
	}
	return lifted
}

// undoResume gives back what the first workers of an attempt have taken to resume.
func (s *State) undoResume(j *model.Job, a *model.Attempt, gpus [][]int, workers int) {
	g := s.ownGrid()
	for i := range workers {
		if w, r := &a.Workers[i], j.RequestOf(i); !w.State.Final() {
			_, at := s.v.Node(w.Node)
			g.Release(at, r, gpus[i])
			g.Allocate(at, r.Suspended(), []int{})
		}
	}
}

// ShareGPU divides a GPU anew among the jobs that share it and one more, which is suspended on the
// node. It changes nothing if that does not fit.
func (s *State) ShareGPU(node int, j *model.Job, set []model.JobID, gpus []int) error {
	g, n := s.ownGrid(), len(set)+1
	now := make([]model.Request, len(set))
	for k, id := range set {
		o := s.v.Job(id)
		now[k] = o.Holds(o.Live(), 0)
		g.Release(node, now[k], gpus)
	}
	for k, id := range set {
		g.Allocate(node, s.v.Job(id).RequestOf(0).WithShare(model.PartOfGPU(k, n)), gpus)
	}
	keeps, r := j.Holds(j.Live(), 0), j.RequestOf(0).WithShare(model.PartOfGPU(n-1, n))
	g.Release(node, keeps, []int{})
	lifted := s.liftHeads(g)
	defer lifted.Restore()
	why := grid.FitsAgain(g, node, r, gpus)
	if why == nil {
		g.Allocate(node, r, gpus)
		return nil
	}
	g.Allocate(node, keeps, []int{})
	for k, id := range set {
		g.Release(node, s.v.Job(id).RequestOf(0).WithShare(model.PartOfGPU(k, n)), gpus)
	}
	for _, held := range now {
		g.Allocate(node, held, gpus)
	}
	return &model.FitError{Job: j.ID, Reason: *why}
}

// DivideGPU divides a GPU anew among those that have stayed there.
func (s *State) DivideGPU(node int, set []model.JobID) {
	g := s.ownGrid()
	for _, id := range set {
		o := s.v.Job(id)
		g.Release(node, o.Holds(o.Live(), 0), o.Live().Workers[0].GPUs)
	}
	for k, id := range set {
		o := s.v.Job(id)
		g.Allocate(node, o.RequestOf(0).WithShare(model.PartOfGPU(k, len(set))), o.Live().Workers[0].GPUs)
	}
}

// needOf returns what a live job holds under a number.
func needOf(j *model.Job, worker int) grid.Held {
	a := j.Live()
	if worker < len(a.Workers) {
		return grid.Held{Request: j.Holds(a, worker), GPUs: grid.OrNone(a.Workers[worker].GPUs)}
	}
	e, _ := j.Elastic()
	return grid.Held{Request: j.RequestOf(e.First), GPUs: grid.OrNone(a.Stop.Resize.Join[worker-len(a.Workers)].GPUs)}
}

// Hold notes that a worker of a job, whose room has been taken, and its ports are on the node at a
// position.
func (s *State) Hold(node int, id model.JobID, worker int, ports []int) {
	h := s.ownHolding(node)
	h.add(HeldWorker{id, worker})
	h.holdPorts(ports)
}

// Vacate gives back what a job holds under a number. Unless it is taken again at once, the node has
// room from now.
func (s *State) Vacate(j *model.Job, worker int, request model.Request, p *model.Place, taken bool) {
	_, i := s.v.Node(p.Node)
	s.ownGrid().Release(i, request, p.GPUs)
	h := s.ownHolding(i)
	h.remove(HeldWorker{j.ID, worker})
	if !taken {
		h.freed = s.v.at
	}
}
