package state

import (
	"math"

	"github.com/rota-hpc/rota/controld/model"
)

// GPUEquivalentPerCore returns for what each core of a new job counts that has no GPUs, 0 for one
// that has.
func (v *View) GPUEquivalentPerCore(j *model.Job) int32 {
	total := j.Total()
	if len(v.nodes) == 0 || total.GPUs > 0 {
		return 0
	}
	have, gpus := &v.inventory.WithGPUs, v.inventory.All.GPUs
	if gpus == 0 {
		have, gpus = &v.inventory.All, max(int64(len(v.nodes))*model.UnitParts, model.FewestParts)*model.WholeGPU
	}
	gpus *= model.Millionths / model.WholeGPU
	worth := max(model.MulDiv(total.Cores, gpus, have.Cores), model.MulDiv(model.InMiB(int64(total.Memory)), gpus,
		max(1, have.Memory)))
	return int32(min((worth-1)/total.Cores+1, math.MaxInt32))
}
