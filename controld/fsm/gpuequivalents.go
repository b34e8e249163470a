package fsm

import (
	"math"

	"github.com/rota-hpc/rota/controld/model"
)

// setGPUEquivalents notes for what each core of a new job counts that has no GPUs.
func (s *State) setGPUEquivalents(j *model.Job) {
	total := j.Total()
	if j.PerCore = 0; len(s.v.nodes) == 0 || total.GPUs > 0 {
		return
	}
	have, gpus := &s.v.inventory.WithGPUs, s.v.inventory.All.GPUs
	if gpus == 0 {
		have, gpus = &s.v.inventory.All, max(int64(len(s.v.nodes))*model.UnitParts, model.FewestParts)*model.WholeGPU
	}
	gpus *= model.Millionths / model.WholeGPU
	worth := max(model.MulDiv(total.Cores, gpus, have.Cores), model.MulDiv(model.InMiB(int64(total.Memory)), gpus, max(1, have.Memory)))
	j.PerCore = int32(min((worth-1)/total.Cores+1, math.MaxInt32))
}
