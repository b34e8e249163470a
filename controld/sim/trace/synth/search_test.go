package synth

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
)

// Exactly one configuration of a search reaches the goal, any of them by chance, and all are the
// same whatever else the search asks for.
func TestSearch(t *testing.T) {
	places := map[int]bool{}
	for seed := range uint64(40) {
		s := DefaultSearch()
		s.Behind = 32
		tr := s.Generate("gen:search", seed)
		if len(tr.Jobs) != 78 {
			t.Fatalf("%d jobs", len(tr.Jobs))
		}
		right := -1
		for i, j := range tr.Jobs[32:] {
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			if _, ok := j.Learning.Reaches(j.Work, j.Search.Goal); !ok {
				continue
			}
			if right >= 0 {
				t.Errorf("seed %d: configurations %d and %d reach the goal", seed, right, i)
			}
			right = i
		}
		if right < 0 {
			t.Errorf("seed %d: no configuration reaches the goal", seed)
		}
		places[right] = true
		s.Behind, s.Keep, s.Noise = 0, 4, 30
		for i, j := range s.Generate("gen:search", seed).Jobs {
			before := tr.Jobs[32+i].Learning
			if j.Learning.Final != before.Final || j.Learning.Half != before.Half {
				t.Fatalf("seed %d: configuration %d learns otherwise with early stopping", seed, i)
			}
		}
	}
	if len(places) < 20 {
		t.Errorf("the right configuration is in %d places in 40 draws", len(places))
	}
	if nodes, err := trace.ParseNodes(searchCluster()); err != nil || len(nodes) != 4 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
}
