package place

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestScarcity: memory is nearly used up and a third of the GPUs is free. Then the last of the
// memory on a node counts for more than GPUs do.
func TestScarcity(t *testing.T) {
	s := scarcity{cores: dearness(300, 1000), memory: dearness(30, 1000), gpus: dearness(300, 1000)}
	node := model.Vector{Cores: 32, Memory: 256 * jobspec.GiB, GPUs: 8000}
	memory := s.left(model.Vector{Memory: 16 * jobspec.GiB, GPUs: 0}, node)
	gpus := s.left(model.Vector{Memory: 0, GPUs: 4000}, node)
	if memory <= gpus {
		t.Errorf("16 GiB left cost %d, 4 GPUs %d", memory, gpus)
	}
	if dearness(0, 0) != 0 || dearness(-5, 1000) != dearness(0, 1000) {
		t.Error("a resource that no node has, or of which more is held than there is, has no price that makes sense")
	}
}
