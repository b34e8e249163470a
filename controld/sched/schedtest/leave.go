package schedtest

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// leave has the workers exit that were asked to leave a job that goes on, and those run that have
// joined it.
func (w *World) leave(j *model.Job) error {
	a := j.Live()
	if a == nil {
		return nil
	}
	for i := range a.Workers {
		worker := a.Workers[i]
		report := model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i, Joined: worker.Joined}
		switch {
		case worker.Leaving:
			report.State, report.ExitCode = model.WorkerExited, model.DefaultCkptCode
		case worker.IsJoining():
			report.State = model.WorkerRunning
		default:
			continue
		}
		node, _ := w.State.View().Node(worker.Node)
		if _, err := w.Apply(fsm.NodeReport{Node: node.Name, BootID: node.BootID,
			Workers: []model.WorkerReport{report}}); err != nil {
			return err
		}
	}
	return nil
}
