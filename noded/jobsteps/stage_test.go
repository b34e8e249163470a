package jobsteps

import (
	"testing"

	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

// TestStages compares the table with what it stands for: whether the shares are held, and whether the job waits for
// the step. It plays a step that runs, one that is given back, and events that come twice or too late.
func TestStages(t *testing.T) {
	type facts struct{ holds, runs bool }
	for _, c := range []struct {
		events []stageEvent
		want   []facts
	}{
		{[]stageEvent{stepBegins, partsEnded, rowWritten}, []facts{{true, true}, {false, true}, {false, false}}},
		{[]stageEvent{givenBack, stepBegins}, []facts{{false, false}, {false, false}}},
		{[]stageEvent{partsEnded, rowWritten, stepBegins, givenBack}, []facts{{true, false}, {true, false}, {true, true},
			{true, true}}},
		{[]stageEvent{stepBegins, rowWritten, partsEnded, partsEnded, givenBack}, []facts{{true, true}, {true, true},
			{false, true}, {false, true}, {false, true}}},
	} {
		at := granted
		if !at.holds() || at.runs() {
			t.Error("a granted step holds its shares and does not run")
		}
		for i, e := range c.events {
			if at = at.after(e); (facts{at.holds(), at.runs()}) != c.want[i] {
				t.Errorf("%v: after event %d it is in stage %d", c.events, i, at)
			}
		}
	}
}

// TestNumbers: a step is found while it runs, and its shares are held up to the end of its parts.
func TestNumbers(t *testing.T) {
	one := &step{}
	j := &job{numbers: map[int]*numbered{3: {stage: granted, shares: []choose.Share{{Place: 1}}, step: one}}}
	for _, c := range []struct {
		event stageEvent
		found bool
		held  int
		left  int
	}{{partsEnded, false, 1, 1}, {stepBegins, true, 1, 1}, {partsEnded, true, 0, 1}, {rowWritten, false, 0, 0},
		{givenBack, false, 0, 0}} {
		j.move(3, c.event)
		if got := j.step(3); (got == one) != c.found || len(j.steps()) > 1 || (len(j.steps()) == 1) != c.found {
			t.Errorf("after event %d: step %v", c.event, got)
		}
		if len(j.allHeld()) != c.held || len(j.numbers) != c.left {
			t.Errorf("after event %d: %d shares are held, %d numbers are left", c.event, len(j.allHeld()), len(j.numbers))
		}
	}
	if j.step(9) != nil {
		t.Error("an unknown number runs")
	}
}
