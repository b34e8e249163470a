package controld

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestAWordMayNameManyJobs names the largest array again and again, which one request of some
// kilobytes can.
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
