package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// RateAfterMS is for how long, in milliseconds, an attempt makes progress before it is told how fast it is, at most: see [RateAfter].
const RateAfterMS = 60_000

// RateAfter returns for how long, in milliseconds, an attempt of an elastic group makes progress before it is told how fast it is. A group
// that may be resized sooner is measured sooner, as well as that goes.
func RateAfter(spec *jobspec.Elastic) Instant { return min(RateAfterMS, rangeOf(spec).Cooldown) }

// RateAfter is [RateAfter] of the group.
func (e Elastic) RateAfter() Instant { return min(RateAfterMS, e.Cooldown) }

// ResizeJob gives an elastic job another number of workers. All of its workers are stopped once, with the grace that the
// job has asked for; when the last one has exited, the same entry of the log begins the next attempt with those that are not to leave, at
// their places, and those that join. Until then their room is taken, whether they run, have exited or have not begun. Nobody's retries are
// used up, and policies are not asked again.
type ResizeJob struct {
	Job     JobID   `json:"job"`
	Attempt int     `json:"attempt"`
	Leave   []int   `json:"leave,omitempty"` // elastic workers whose room is given up, by number in the attempt, ascending
	Join    []Place `json:"join,omitempty"`  // of further workers: free now, without ports
	For     JobID   `json:"for,omitempty"`   // the waiting job that gets the room of those who leave; 0: none. When it does not wait any more the resize is refused

	// Inexact says that it is not proven that nobody else could have left at less cost. It changes nothing.
	Inexact bool `json:"inexact,omitempty"`
}

// Resize is what a stop leaves to the next attempt of an elastic job.
type Resize struct {
	Leave []int   `json:"leave,omitempty"`
	Join  []Place `json:"join,omitempty"`
}

// Refusals of resizes.
var (
	ErrNotElastic = errors.New("the job has a fixed number of workers")
	ErrBadSize    = errors.New("the job may not run with so many workers")
)

// planResize asks all workers of an elastic job to stop, and takes the room of those that will join it.
func (s *State) planResize(c *ResizeJob) error {
	a, err := s.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := s.v.Job(c.Job)
	r := &Resize{Leave: c.Leave, Join: c.Join}
	cause, err := r.check(j, a)
	switch {
	case err != nil:
		return err
	case c.For != 0 && !s.wantsRoom(c.For):
		return fmt.Errorf("for job %d: %w", c.For, ErrNotWanted)
	}
	places := r.places(j, a)
	at, err := s.locatePlaces(j.resized(len(places)), places)
	if err != nil {
		return err
	}
	if err := s.join(j, a, r, at); err != nil {
		return err
	}
	next, a := copyToChange(j)
	s.stop(next, a, Stop{Cause: cause, For: c.For, Resize: r})
	s.put(next)
	return nil
}

// check returns as what a resize counts.
func (r *Resize) check(j *Job, a *Attempt) (Cause, error) {
	e, elastic := j.Elastic()
	switch {
	case !elastic:
		return "", ErrNotElastic
	case a.Stop != nil:
		return "", ErrStopping
	case slices.ContainsFunc(a.Workers, func(w Worker) bool { return w.State.Final() }):
		return "", fmt.Errorf("a worker has ended: %w", ErrWrongState)
	}
	return r.cause(j, e)
}

// cause says whether a job shrinks, grows or moves, or why it may not.
func (r *Resize) cause(j *Job, e Elastic) (Cause, error) {
	size := j.Size()
	for i, w := range r.Leave {
		if w < e.First || w >= e.First+size || i > 0 && r.Leave[i-1] >= w {
			return "", fmt.Errorf("worker %d is to leave: %w", w, ErrBadSize)
		}
	}
	next := size - len(r.Leave) + len(r.Join)
	if len(r.Leave)+len(r.Join) == 0 || !e.Has(next) {
		return "", fmt.Errorf("%d instead of %d: %w", next, size, ErrBadSize)
	}
	switch {
	case next < size:
		return CauseShrink, nil
	case next > size:
		return CauseGrow, nil
	}
	return CauseMigrate, nil
}

// places are those of the next attempt, in its order: who joins comes after the other elastic workers. Ports are chosen when it begins.
func (r *Resize) places(j *Job, a *Attempt) []Place {
	e, _ := j.Elastic()
	last := e.First + j.Size() - 1
	places := make([]Place, 0, len(a.Workers)+len(r.Join))
	for i := range a.Workers {
		if !slices.Contains(r.Leave, i) {
			p := a.Workers[i].Place
			p.Port = 0
			places = append(places, p)
		}
		if i == last {
			places = append(places, r.Join...)
		}
	}
	return places
}

// join takes the room of the workers that will join a job, or none if they do not all fit. Positions are those of all places of the next
// attempt.
func (s *State) join(j *Job, a *Attempt, r *Resize, at []int) error {
	e, _ := j.Elastic()
	first := e.First + j.Size() - len(r.Leave)
	g, request := s.ownGrid(), j.RequestOf(e.First)
	for k, p := range r.Join {
		node, gpus := at[first+k], orNone(p.GPUs)
		why := Fits(g, node, request, gpus)
		if why != nil && request.Exclusive && slices.Contains(at[e.First:first+k], node) && g.joins(node, request, gpus) {
			why = nil
		}
		if why != nil {
			for i := range k {
				g.Give(at[first+i], request, r.Join[i].GPUs)
			}
			return &FitError{Job: j.ID, Reason: *why}
		}
		g.Take(node, request, gpus)
	}
	for k := range r.Join {
		s.ownHolding(at[first+k]).add(heldWorker{j.ID, len(a.Workers) + k})
	}
	return nil
}

func (h *holding) add(w heldWorker) {
	k, _ := slices.BinarySearchFunc(h.workers, w, heldWorker.compare)
	h.workers = slices.Insert(h.workers, k, w)
}

func (h *holding) remove(w heldWorker) {
	if k, ok := slices.BinarySearchFunc(h.workers, w, heldWorker.compare); ok {
		h.workers = slices.Delete(h.workers, k, k+1)
	}
}

// resize returns what the attempt leaves to the next one, nil if that is nothing.
func (a *Attempt) resize() *Resize {
	if a.Stop == nil {
		return nil
	}
	return a.Stop.Resize
}

// keeps reports whether the room of a worker, which has exited, is kept for the next attempt.
func (a *Attempt) keeps(worker int) bool {
	r := a.resize()
	return r != nil && !slices.Contains(r.Leave, worker)
}

// held yields the numbers under which a live attempt holds room, and where: workers that are not final, those whose room is kept, and after
// them those that are to join.
func (a *Attempt) held(yield func(worker int, p *Place) bool) {
	for i := range a.Workers {
		if w := &a.Workers[i]; (!w.State.Final() || a.keeps(i)) && !yield(i, &w.Place) {
			return
		}
	}
	r := a.resize()
	if r == nil {
		return
	}
	for k := range r.Join {
		if !yield(len(a.Workers)+k, &r.Join[k]) {
			return
		}
	}
}

// needOf returns what a live job holds under a number.
func (j *Job) needOf(worker int) Held {
	a := j.Live()
	if worker < len(a.Workers) {
		return Held{j.RequestOf(worker), orNone(a.Workers[worker].GPUs)}
	}
	e, _ := j.Elastic()
	return Held{j.RequestOf(e.First), orNone(a.Stop.Resize.Join[worker-len(a.Workers)].GPUs)}
}

// vacateRoom gives back what a job holds under a number, and returns what is noted of the node.
func (s *State) vacateRoom(j *Job, worker int, request Request, p *Place) *holding {
	_, i := s.v.Node(p.Node)
	s.ownGrid().Give(i, request, p.GPUs)
	h := s.ownHolding(i)
	h.remove(heldWorker{j.ID, worker})
	return h
}

// cancelResize gives back what is kept for the next attempt of a job that is being resized and holds nothing else, and returns the places that
// it was kept for. Workers that still run keep their room until they have exited. taken says that it is taken again at once.
func (s *State) cancelResize(j *Job, a *Attempt, taken bool) []Place {
	r := a.resize()
	if r == nil {
		return nil
	}
	places := r.places(j, a)
	e, _ := j.Elastic()
	for worker, p := range a.held {
		request := j.RequestOf(e.First)
		if worker < len(a.Workers) {
			if !a.Workers[worker].State.Final() {
				continue
			}
			request = j.RequestOf(worker)
		}
		if h := s.vacateRoom(j, worker, request, p); !taken {
			h.freed = s.v.at
		}
	}
	stop := *a.Stop
	stop.Resize = nil
	a.Stop = &stop
	return places
}

// cancelResizeOnNode gives up the next attempt of a job that was to have room on a node which was booted anew.
func (s *State) cancelResizeOnNode(j *Job) {
	if j.Live().resize() == nil {
		return
	}
	next, a := copyToChange(j)
	s.cancelResize(next, a, false)
	s.put(next)
}

// resizes reports whether an attempt that has ended for a cause is followed by one with other workers at once.
func resizes(c Cause) bool { return c == CauseShrink || c == CauseGrow || c == CauseMigrate }

// relaunch begins the next attempt of a job that has been resized. If its places are not to be had any more it waits like others.
func (s *State) relaunch(id JobID, places []Place, cause Cause) {
	j := s.v.Job(id)
	if j == nil || j.State != Pending || isSetAside(j) || j.Eligible > s.v.at {
		return
	}
	c := &StartJob{Job: id, Places: slices.Clone(places), cause: cause}
	s.givePorts(j, c)
	_ = s.launch(j, c) // whoever does not fit waits
}

// givePorts chooses the ports of a start: the lowest that are free.
func (s *State) givePorts(j *Job, c *StartJob) {
	taken := map[string][]int{}
	free := func(node string) int {
		port, _ := s.v.FreePort(node, taken[node]...)
		taken[node] = append(taken[node], port)
		return port
	}
	if len(c.Places) > 1 {
		c.Port = free(c.Places[0].Node)
	}
	if len(j.Parts) > 0 {
		for i := range c.Places {
			c.Places[i].Port = free(c.Places[i].Node)
		}
	}
}

// rated notes how fast an attempt is, the first time that somebody says so.
func (s *State) rated(node string, r *WorkerReport) {
	if r.Rate <= 0 {
		return
	}
	a, err := s.attempt(r.Job, r.Attempt)
	if err != nil || r.Worker < 0 || r.Worker >= len(a.Workers) || a.Workers[r.Worker].Node != node || a.Rate != 0 {
		return
	}
	next, a := copyToChange(s.v.Job(r.Job))
	a.Rate, a.Rated = r.Rate, s.v.at
	s.put(next)
	s.recordStepRate(next, a)
}

// checkResize says whether what is kept for the next attempt of a job is what it may have.
func checkResize(j *Job, a *Attempt) error {
	r := a.resize()
	if r == nil {
		return nil
	}
	e, elastic := j.Elastic()
	if !elastic {
		return ErrNotElastic
	}
	cause, err := r.cause(j, e)
	if err == nil && cause != a.Stop.Cause {
		err = fmt.Errorf("it is to %s: %w", cause, ErrBadCause)
	}
	return err
}
