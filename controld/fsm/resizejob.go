package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// ResizeJob gives an elastic job another number of workers. All its workers are stopped once, with
// the job's own grace. When the last one has exited, the same entry of the log begins the next
// attempt with the workers that stay and those that join. Until then their room is taken, whether
// they run, have exited or have not begun. No retries are used up, and policies are not asked
// again.
type ResizeJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	// elastic workers whose room is given up, by number in the attempt, ascending
	Leave []int         `json:"leave,omitempty"`
	Join  []model.Place `json:"join,omitempty"` // of further workers: free now, without ports
	// the waiting job that gets the room of those that leave; 0: none. When it does not wait any more
	// the resize is refused
	For model.JobID `json:"for,omitempty"`

	// Inexact says that it is not proven that no other job could have left at less cost. It changes
	// nothing.
	Inexact bool `json:"inexact,omitempty"`
}

// String implements Action.
func (c *ResizeJob) String() string {
	return fmt.Sprintf("resize job %d: %d workers leave and %d join", c.Job, len(c.Leave), len(c.Join))
}

// PartOf implements Action.
func (c *ResizeJob) PartOf() steering.Switch {
	if c.For != 0 {
		return steering.Preemption
	}
	return steering.Growth
}

func (*ResizeJob) ends() bool                     { return false }
func (c *ResizeJob) names() (string, model.JobID) { return "resize", c.Job }
func (c *ResizeJob) store(to *storedAction)       { to.Resize = c }

// act asks all workers of an elastic job to stop, and takes the room of those that will join
// it.
func (c *ResizeJob) act(m *Machine) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := m.v.Job(c.Job)
	r := &model.Resize{Leave: c.Leave, Join: c.Join}
	cause, err := r.Check(j, a)
	switch {
	case err != nil:
		return err
	case c.For != 0 && !m.wantsRoom(c.For):
		return fmt.Errorf("for job %d: %w", c.For, model.ErrNotWanted)
	}
	if e, _ := j.Elastic(); e.Signal {
		return m.resizeRunning(c, j, r, cause)
	}
	_, err = m.stopToRelaunch(j, a, r, model.Stop{Cause: cause, For: c.For})
	return err
}

// stopToRelaunch takes the room of the workers that join an attempt, and asks all its workers to
// stop. The attempt then goes on as [model.Resize] says.
func (m *Machine) stopToRelaunch(j *model.Job, a *model.Attempt, r *model.Resize, s model.Stop) (*model.Job, error) {
	places := r.Places(j, a)
	at, err := m.locate(j.Resized(len(places)), places)
	if err != nil {
		return nil, err
	}
	if err := m.s.Join(j, a, r, at); err != nil {
		return nil, err
	}
	next, a := copyToChange(j)
	s.Resize = r
	m.stop(next, a, s)
	m.put(next)
	return next, nil
}

// cancelResize gives back the room that is kept for the next attempt of a job that is being
// resized. It returns the places of that room. Workers that still run keep their room until they
// have exited. taken says that it is taken again at once.
func (m *Machine) cancelResize(j *model.Job, a *model.Attempt, taken bool) []model.Place {
	r := a.Resize()
	if r == nil {
		return nil
	}
	places := r.Places(j, a)
	e, _ := j.Elastic()
	for worker, p := range a.Held {
		request := j.RequestOf(e.First)
		if worker < len(a.Workers) {
			if !a.Workers[worker].State.Final() {
				continue
			}
			request = j.RequestOf(worker)
		}
		m.s.Vacate(j, worker, request, p, taken)
	}
	stop := *a.Stop
	stop.Resize = nil
	a.Stop = &stop
	return places
}

// cancelResizeOnNode gives up the next attempt of a job that was to have room on a node which was
// booted anew.
func (m *Machine) cancelResizeOnNode(j *model.Job) {
	if j.Live().Resize() == nil {
		return
	}
	next, a := copyToChange(j)
	m.cancelResize(next, a, false)
	m.put(next)
}

// resizes reports whether an attempt that has ended for a cause is followed by one with other
// workers at once.
func resizes(c model.Cause) bool {
	return c == model.CauseShrink || c == model.CauseGrow || c == model.CauseMigrate
}

// relaunch begins the next attempt of a job that has been resized or moved. If its places are not
// to be had any more it waits like others.
func (m *Machine) relaunch(id model.JobID, places []model.Place, cause model.Cause, trial *model.Trial) {
	j := m.v.Job(id)
	if j == nil || j.State != model.Pending || model.IsSetAside(j) || j.Eligible > m.v.At() {
		return
	}
	c := &StartJob{Job: id, Places: slices.Clone(places), cause: cause, trial: trial}
	m.givePorts(j, c)
	_ = m.launch(j, c) // a job that does not fit waits
}

// givePorts chooses the ports of a start: the lowest that are free.
func (m *Machine) givePorts(j *model.Job, c *StartJob) {
	taken := map[string][]int{}
	free := func(node string) int {
		port, _ := m.v.FreePort(node, taken[node]...)
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

// rated notes how fast an attempt is, the first time that it is reported.
func (m *Machine) rated(node string, r *model.WorkerReport) {
	if a, _ := m.reported(node, r); a == nil || r.Rate <= 0 || a.Rate != 0 {
		return
	}
	next, a := copyToChange(m.v.Job(r.Job))
	a.Rate, a.Rated = r.Rate, m.v.At()
	m.measureMove(next, a)
	m.put(next)
	m.s.Learn().StepRate(next, a)
}
