package controld

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestManyElementsAreNamedAtOnce names every other element of the largest array. What took time with the square of their number took minutes.
func TestManyElementsAreNamedAtOnce(t *testing.T) {
	record := &cluster.Job{ID: 1, Family: &cluster.Family{Size: jobspec.MaxElements},
		Spec: &jobspec.Job{Array: &jobspec.Array{Indices: "0-99999"}}}
	begin := time.Now()
	members, err := elementsOf(record, "[0-99999:2]")
	if err != nil || members.Len() != 50_000 || !members.Has(1) || members.Has(2) || !members.Has(99_999) {
		t.Fatalf("%d members, %v", members.Len(), err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if members, err = elementsOf(record, "[7,3-5,6]"); err != nil || members.String() != "4-8" {
		t.Errorf("members %v, %v", members, err)
	}
}

// TestAWordMayNameManyJobs names the largest array again and again, which one request of some kilobytes can.
func TestAWordMayNameManyJobs(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	many := job("many")
	many.Array = &jobspec.Array{Indices: "0-99999"}
	record, err := c.Submit(t.Context(), "", many)
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Submit(t.Context(), "", job("other"))
	if err != nil {
		t.Fatal(err)
	}
	refs := []string{fmt.Sprint(other)}
	for range 2000 {
		refs = append(refs, fmt.Sprint(record))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, _, err := c.Jobs(t.Context(), api.JobFilter{Refs: refs}, api.Read{})
	if err != nil || !slices.Equal(idsOf(list.Items), []cluster.JobID{record, other}) {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, _, err := c.History(t.Context(), api.HistoryFilter{Refs: refs}, api.Read{}); err != nil {
		t.Error(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 256<<20 {
		t.Errorf("two requests took %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	half := fmt.Sprintf("%d_[0-99999:2]", record)
	_, _, err = c.Jobs(t.Context(), api.JobFilter{Refs: []string{half, half, half, half, half}}, api.Read{})
	wantProblem(t, err, api.CodeInvalid)
}
