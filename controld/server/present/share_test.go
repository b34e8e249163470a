package present

import (
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// TestPartsOfGPUsAreShown notices a job with a part of a GPU that seems to have none.
func TestPartsOfGPUsAreShown(t *testing.T) {
	for _, c := range []struct {
		each, workers int64
		gpus          int
		thousandths   int64
	}{{500, 1, 1, 500}, {500, 2, 1, 0}, {500, 3, 2, 1500}, {1000, 2, 2, 0}, {0, 2, 0, 0}} {
		j := &model.Job{Spec: &jobspec.Job{Groups: make([]jobspec.Group, 1)}, Workers: int(c.workers),
			Request: model.Request{Active: model.Vector{GPUs: c.each}}}
		if got := Job(nil, j, model.Reason{}, telemetry.AttemptProgress{}, 0); got.GPUs != c.gpus ||
			got.GPUThousandths != c.thousandths {
			t.Errorf("%d workers with %d: %d GPUs, %d thousandths", c.workers, c.each, got.GPUs, got.GPUThousandths)
		}
	}
}

// TestFlagOfAnAllocation: a job that holds nodes for a command says so.
func TestFlagOfAnAllocation(t *testing.T) {
	j := &model.Job{Spec: &jobspec.Job{Meta: map[string]string{jobspec.MetaAllocation: "srun"}}}
	if got := flags(j); len(got) != 1 || got[0] != api.FlagAllocation {
		t.Errorf("its flags are %v", got)
	}
}
