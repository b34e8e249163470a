package jobref

import (
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestManyTasksAreNamedAtOnce names every other task of the largest array. In quadratic time it
// would take minutes.
func TestManyTasksAreNamedAtOnce(t *testing.T) {
	record := &model.Job{ID: 1, Children: &model.Children{Size: jobspec.MaxElements},
		Spec: &jobspec.Job{Array: &jobspec.Array{Indices: "0-99999"}}}
	begin := time.Now()
	members, err := elementsOf(record, "[0-99999:2]")
	if err != nil || members.Len() != 50_000 || !members.Has(1) || members.Has(2) || !members.Has(99_999) {
		t.Fatalf("%d members, %v", members.Len(), err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if members, err = elementsOf(record, "[7,3-5,6]"); err != nil || members.String() != "4-8" {
		t.Errorf("members %v, %v", members, err)
	}
}
