package shim

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/criu"
)

// TestImagePhases compares the table with what it stands for: whether the worker has processes, whether there is an
// image of them, and whether CRIU is at work.
func TestImagePhases(t *testing.T) {
	type facts struct{ processes, image, atWork bool }
	is := map[imagePhase]facts{alive: {processes: true}, awaited: {image: true}, restoring: {image: true, atWork: true},
		unrestored: {image: true}, saving: {processes: true, atWork: true}, saved: {image: true}, lost: {}}
	does := map[imageEvent]struct {
		from imagePhase
		to   facts
	}{
		startOrdered: {awaited, facts{image: true, atWork: true}}, allRestored: {restoring, facts{processes: true}},
		notRestored: {restoring, facts{image: true}}, saveOrdered: {alive, facts{processes: true, atWork: true}},
		imageWhole: {saving, facts{image: true}}, saveRefused: {saving, facts{processes: true}},
		imageUnfinished: {saving, facts{}}, criuHung: {saving, facts{}},
	}
	for phase, before := range is {
		if phase.atWork() != before.atWork {
			t.Errorf("in phase %d CRIU is at work: %t", phase, phase.atWork())
		}
		for event, d := range does {
			want := d.to
			if phase != d.from {
				want = before // it changes nothing
			}
			if after := phase.after(event); is[after] != want || phase != d.from && after != phase {
				t.Errorf("event %d leads from phase %d to %d", event, phase, after)
			}
		}
	}
}

// TestWhatAnOutcomeMeans goes through the outcomes of CRIU's work.
func TestWhatAnOutcomeMeans(t *testing.T) {
	for _, c := range []struct {
		err             error
		saved, restored imageEvent
	}{
		{nil, imageWhole, allRestored}, {errors.New("a TCP connection"), saveRefused, notRestored},
		{criu.ErrHangs, criuHung, notRestored}, {fmt.Errorf("%w: no room", criu.ErrUnfinished), imageUnfinished, notRestored},
	} {
		if savedAs(c.err) != c.saved || restoredAs(c.err) != c.restored {
			t.Errorf("%v: event %d of a save, %d of a restore", c.err, savedAs(c.err), restoredAs(c.err))
		}
	}
	if newImage(nil).phase != alive || newImage(&container.Restore{}).phase != awaited {
		t.Error("a worker begins in the wrong phase")
	}
}
