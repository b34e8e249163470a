package schedtest

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// Switched reports that all workers of a job have done as the job was told last: they have paused, or
// go on.
func (w *World) Switched(j *model.Job, pauses bool) error {
	a := j.Live()
	if a == nil || a.Switch == nil || (a.Switch.Number%2 == 1) != pauses {
		return fmt.Errorf("%s was not told to", w.Names[j.ID])
	}
	for i := range a.Workers {
		worker := &a.Workers[i]
		if worker.State.Final() {
			continue
		}
		n, _ := w.State.View().Node(worker.Node)
		report := model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i, State: worker.State, Switch: a.Switch.Number}
		if _, err := w.Apply(fsm.NodeReport{Node: worker.Node, BootID: n.BootID,
			Workers: []model.WorkerReport{report}}); err != nil {
			return err
		}
	}
	return nil
}
