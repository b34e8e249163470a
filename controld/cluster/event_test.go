package cluster

import (
	"slices"
	"testing"
)

// TestEventsOfViewsStay takes views at all stages of filling and trimming: what one shows of events never changes.
func TestEventsOfViewsStay(t *testing.T) {
	for _, every := range []int{97, 9_973, 70_001} { // from many views of each array to arrays that no view has
		s := New(Config{})
		type pair struct{ view, want []Event }
		var views []pair
		for i := range 150_000 {
			s.v.index++
			s.emit(Event{Job: JobID(i)})
			if i%every == 0 {
				got := s.View().Events(0)
				views = append(views, pair{got, slices.Clone(got[max(0, len(got)-100):])})
			}
		}
		now := s.View().Events(0)
		if len(now) != maxEvents || now[0].Job != 150_000-maxEvents || now[maxEvents-1].Job != 149_999 {
			t.Fatalf("every %d: %d events from %+v", every, len(now), now[0])
		}
		for _, p := range views {
			if kept := p.view[max(0, len(p.view)-100):]; !slices.Equal(kept, p.want) {
				t.Fatalf("every %d: a view's last events became %+v, were %+v", every, kept[0], p.want[0])
			}
			if first := p.view[0].Job; first != max(0, p.view[len(p.view)-1].Job-maxEvents+1) {
				t.Fatalf("every %d: a view's events begin with %d", every, first)
			}
		}
	}
}

// TestRecentOfViewsStay does the same for what trial-and-error jobs asked for last.
func TestRecentOfViewsStay(t *testing.T) {
	s := New(Config{})
	var views [][]Vector
	for i := range 3 * recentKept {
		s.v.index++
		s.v.at = 1
		s.recordArrival(&Job{Class: "te", Workers: 1, Request: Request{Active: Vector{Cores: int64(i)}}})
		if i%5 == 0 || i%5 == 1 {
			views = append(views, s.View().Learned().TE.Recent)
		}
	}
	for _, recent := range views {
		last := recent[len(recent)-1].Cores
		for i, v := range recent {
			if v.Cores != last-int64(len(recent)-1-i) || len(recent) != int(min(last+1, recentKept)) {
				t.Fatalf("a view whose last worker asks for %d cores has %d workers, the one at %d asking for %d", last, len(recent), i, v.Cores)
			}
		}
	}
}
