package state

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// TestEventsOfViewsStay takes views at all stages of filling and trimming: what one shows of events
// never changes.
func TestEventsOfViewsStay(t *testing.T) {
	for _, every := range []int{97, 9_973, 70_001} { // from many views of each array to arrays that no view has
		s := New(cluster.Config{})
		type pair struct{ view, want []model.Event }
		var views []pair
		for i := range 150_000 {
			s.v.index++
			s.Emit(model.Event{Job: model.JobID(i)})
			if i%every == 0 {
				got := s.View().Events(0)
				views = append(views, pair{got, slices.Clone(got[max(0, len(got)-100):])})
			}
		}
		now := s.View().Events(0)
		if len(now) != model.MaxEvents || now[0].Job != 150_000-model.MaxEvents || now[model.MaxEvents-1].Job != 149_999 {
			t.Fatalf("every %d: %d events from %+v", every, len(now), now[0])
		}
		for _, p := range views {
			if kept := p.view[max(0, len(p.view)-100):]; !slices.Equal(kept, p.want) {
				t.Fatalf("every %d: a view's last events became %+v, were %+v", every, kept[0], p.want[0])
			}
			if first := p.view[0].Job; first != max(0, p.view[len(p.view)-1].Job-model.MaxEvents+1) {
				t.Fatalf("every %d: a view's events begin with %d", every, first)
			}
		}
	}
}
