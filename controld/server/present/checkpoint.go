package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Checkpoint returns where the folder of a worker of a job's live attempt is; nil if it begins anew.
func Checkpoint(v *state.View, j *model.Job, worker int) *api.CheckpointSource {
	live := j.Live()
	if live == nil || !j.KeepsOnNodes() {
		return nil
	}
	last := j.LastRun(worker, live.N)
	if last == nil {
		return nil
	}
	n, _ := v.Node(last.Workers[worker].Node)
	if n == nil || n.State == model.NodeDown {
		return nil
	}
	return &api.CheckpointSource{Attempt: last.N, Node: n.Name, Addr: n.Addr}
}
