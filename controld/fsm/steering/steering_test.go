package steering

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

func on(what Switch, reason string, at model.Instant) Setting {
	return Setting{What: what, By: "root", Reason: reason, Since: model.Stamp{At: at}}
}

// TestSwitches: each pauses its own part, that of all pauses every part, and resuming all ends all
// pauses but no dry run.
func TestSwitches(t *testing.T) {
	none := new(Steering)
	for _, what := range Switches {
		s := none.TurnOn(on(what, "", 1))
		if s.Setting(what) == nil || s.Check() != nil || none.Setting(what) != nil {
			t.Errorf("%s: %+v, %v", what, s, s.Check())
		}
		if got := s.TurnOff(what); got.Setting(what) != nil {
			t.Errorf("%s is off: %+v", what, got)
		}
	}
	all := none.TurnOn(on(DryRun, "", 1)).TurnOn(on(Growth, "", 2)).TurnOn(on(All, "", 3))
	if p := all.Paused(Preemption); p == nil || p.What != All {
		t.Errorf("all pauses preemption: %+v", p)
	}
	if p := all.Paused(Growth); p == nil || p.What != Growth {
		t.Errorf("growth is paused by itself: %+v", p)
	}
	if s := all.TurnOff(All); len(s.Settings) != 1 || s.Setting(DryRun) == nil {
		t.Errorf("resuming all leaves %+v", s)
	}
}

// TestWhatIsForbidden lists which switch keeps the scheduler from what.
func TestWhatIsForbidden(t *testing.T) {
	for _, test := range []struct {
		on        Switch
		forbidden []Switch
	}{
		{Preemption, []Switch{Preemption, Migration}},
		{Growth, []Switch{Growth}},
		{Migration, []Switch{Migration}},
		{Slicing, []Switch{Slicing}},
		{Packing, []Switch{Packing}},
		{All, []Switch{Preemption, Growth, Migration, Slicing, Packing}},
		{DryRun, []Switch{Preemption, Migration, Slicing, Packing}},
	} {
		s := new(Steering).TurnOn(on(test.on, "", 1))
		got := 0
		for _, what := range []Switch{Preemption, Growth, Migration, Slicing, Packing} {
			if s.Forbids(what) != nil {
				got++
			}
		}
		for _, what := range test.forbidden {
			if s.Forbids(what) == nil {
				t.Errorf("%s does not forbid %s", test.on, what)
			}
		}
		if got != len(test.forbidden) {
			t.Errorf("%s forbids %d parts, want %v", test.on, got, test.forbidden)
		}
	}
	s := new(Steering).TurnOn(on(DryRun, "", 1)).TurnOn(on(Growth, "", 1)).WithoutDryRun()
	if s.Forbids(Preemption) != nil || s.Forbids(Growth) == nil {
		t.Errorf("without the dry run: %+v", s)
	}
}

// TestAFurtherReason: a switch that is on stays so since when it is.
func TestAFurtherReason(t *testing.T) {
	s := new(Steering).TurnOn(on(Growth, "a test", 1)).TurnOn(on(Growth, "", 2))
	if g := s.Setting(Growth); g.Since.At != 1 || g.Reason != "a test" || len(s.Settings) != 1 {
		t.Errorf("got %+v", g)
	}
	next := on(Growth, "longer", 3)
	next.By = "ann"
	if g := s.TurnOn(next).Setting(Growth); g.Since.At != 1 || g.Reason != "longer" || g.By != "ann" {
		t.Errorf("got %+v", g)
	}
}

// TestRecords: a displacement is new once, replaced when the cycle finds others for the same job,
// and gone when it is no longer possible.
func TestRecords(t *testing.T) {
	gone := map[model.JobID]bool{}
	possible := func(d *Displacement) bool { return !gone[d.Job] && !gone[d.For] }
	would := func(job, beneficiary model.JobID) Displacement {
		return Displacement{Job: job, Attempt: 1, For: beneficiary, Cause: model.CauseTE}
	}
	var known []Displacement
	step := func(at model.Instant, want, fresh int, found ...Displacement) {
		t.Helper()
		all, news := Record(known, found, model.Stamp{At: at}, possible)
		if len(all) != want || len(news) != fresh {
			t.Errorf("at %d: %+v, new %+v; want %d, %d", at, all, news, want, fresh)
		}
		known = all
	}
	step(1, 1, 1, would(1, 9))
	step(2, 1, 0, would(1, 9))
	step(3, 1, 0) // a cycle that did not look
	dearer := would(1, 9)
	dearer.LostMS = 7
	step(4, 1, 0, dearer)
	step(5, 1, 0, would(2, 9)) // it rests
	step(1+Rest, 1, 1, would(2, 9))
	if known[0].Job != 2 {
		t.Errorf("known: %+v", known)
	}
	step(2+Rest, 3, 2, would(1, 8), would(2, 8))
	gone[9] = true
	step(3+Rest, 2, 0)
	gone[2] = true
	step(4+Rest, 1, 0)
	for i := range model.JobID(2 * MaxDisplacements) {
		known, _ = Record(known, []Displacement{would(100+i, 1000+i)}, model.Stamp{At: 5 + Rest}, possible)
	}
	if len(known) != MaxDisplacements {
		t.Errorf("%d are remembered", len(known))
	}
}
