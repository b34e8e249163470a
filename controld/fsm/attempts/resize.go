package attempts

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
)

// Resize asks all workers of an elastic job to stop, and takes the room of those that will join
// it.
func (m *Manager) Resize(job model.JobID, n int, r *model.Resize, beneficiary model.JobID) error {
	a, err := m.Attempt(job, n)
	if err != nil {
		return err
	}
	j := m.view.Job(job)
	cause, err := r.Check(j, a)
	switch {
	case err != nil:
		return err
	case beneficiary != 0 && !m.WantsRoom(beneficiary):
		return fmt.Errorf("for job %d: %w", beneficiary, model.ErrNotWanted)
	}
	if e, _ := j.Elastic(); e.Signal {
		return m.resizeRunning(j, r, cause, beneficiary)
	}
	_, err = m.stopToRelaunch(j, a, r, model.Stop{Cause: cause, For: beneficiary})
	return err
}

// stopToRelaunch takes the room of the workers that join an attempt, and asks all its workers to
// stop. The attempt then goes on as [model.Resize] says.
func (m *Manager) stopToRelaunch(j *model.Job, a *model.Attempt, r *model.Resize, s model.Stop) (*model.Job, error) {
	places := r.Places(j, a)
	at, err := m.locate(j.Resized(len(places)), places)
	if err != nil {
		return nil, err
	}
	if err := m.state.Join(j, a, r, at); err != nil {
		return nil, err
	}
	next, a := jobs.CopyToChange(j)
	s.Resize = r
	m.Stop(next, a, s)
	m.jobs.Put(next)
	return next, nil
}

// cancelResize gives back the room that is kept for the next attempt of a job that is being
// resized. It returns the places of that room. Workers that still run keep their room until they
// have exited. taken says that it is taken again at once.
func (m *Manager) cancelResize(j *model.Job, a *model.Attempt, taken bool) []model.Place {
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
		m.state.Vacate(j, worker, request, p, taken)
	}
	stop := *a.Stop
	stop.Resize = nil
	a.Stop = &stop
	return places
}

// cancelResizeOnNode gives up the next attempt of a job that was to have room on a node which was
// booted anew.
func (m *Manager) cancelResizeOnNode(j *model.Job) {
	if j.Live().Resize() == nil {
		return
	}
	next, a := jobs.CopyToChange(j)
	m.cancelResize(next, a, false)
	m.jobs.Put(next)
}

// resizes reports whether an attempt that has ended for a cause is followed by one with other
// workers at once.
func resizes(c model.Cause) bool {
	return c == model.CauseShrink || c == model.CauseGrow || c == model.CauseMigrate
}

// relaunch begins the next attempt of a job that has been resized or moved. If its places are not
// to be had any more it waits like others.
func (m *Manager) relaunch(id model.JobID, places []model.Place, cause model.Cause, trial *model.Trial) {
	j := m.view.Job(id)
	if j == nil || j.State != model.Pending || model.IsSetAside(j) || j.Eligible > m.view.At() {
		return
	}
	c := &Start{Job: id, Places: slices.Clone(places), cause: cause, trial: trial}
	m.givePorts(j, c)
	_ = m.Launch(j, c) // a job that does not fit waits
}

// givePorts chooses the ports of a start: the lowest that are free.
func (m *Manager) givePorts(j *model.Job, c *Start) {
	taken := map[string][]int{}
	free := func(node string) int {
		port, _ := m.view.FreePort(node, taken[node]...)
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
