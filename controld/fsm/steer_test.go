package fsm

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func turn(what steering.Switch, on bool) Steer { return Steer{What: what, On: on, By: "root"} }

// TestSwitchesOfTheScheduler: what is no switch is refused, one that is as it should be makes no
// event, and the others are in the snapshot.
func TestSwitchesOfTheScheduler(t *testing.T) {
	w := newWorld(t)
	for what, c := range map[string]Steer{
		"an unknown switch": turn("brakes", true), "not a switch": turn("", true),
		"a long reason": {What: steering.Growth, On: true, Reason: strings.Repeat("x", steering.MaxReason+1)},
	} {
		if _, err := w.apply(c); !errors.Is(err, model.ErrBadSwitch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	before := w.s.View()
	w.must(Steer{What: steering.Preemption, On: true, By: "root", Reason: "a demonstration"})
	w.must(turn(steering.Preemption, true))
	w.must(turn(steering.Growth, false))
	w.must(turn(steering.DryRun, true))
	var said []string
	for _, e := range w.s.View().Events(before.Index()) {
		said = append(said, string(e.Type)+" "+e.Text)
	}
	if want := []string{"sched-paused preemption by root: a demonstration", "dry-run-on by root"}; !reflect.DeepEqual(said,
		want) {
		t.Errorf("events %q, want %q", said, want)
	}
	if s := w.s.View().Steering().Setting(steering.Preemption); s == nil || s.Reason != "a demonstration" ||
		s.Since.At == 0 || before.Steering().Setting(steering.Preemption) != nil {
		t.Errorf("preemption is %+v", s)
	}
	again, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	if err != nil || !reflect.DeepEqual(again.View().Steering(), w.s.View().Steering()) {
		t.Errorf("after a restart: %+v, %v", again, err)
	}
	w.must(turn(steering.All, true))
	if _, err := w.apply(turn(steering.Growth, false)); !errors.Is(err, model.ErrStillPaused) {
		t.Errorf("growth is resumed while all is paused: %v", err)
	}
	w.must(turn(steering.All, false))
	if s := w.s.View().Steering(); len(s.Settings) != 1 || s.Setting(steering.DryRun) == nil {
		t.Errorf("after resuming all: %+v", s)
	}
}

// TestAPlanFromBeforeThePause: what was decided before an operator said so is refused, and what
// only ends something is not.
func TestAPlanFromBeforeThePause(t *testing.T) {
	w := newWorld(t)
	w.must(RegisterNode{Node: testNode("n1", 4)})
	id := w.running(1, []string{"n1"})
	te := w.submit(1, 1, func(j *jobspec.Job) { j.Class = jobspec.TE })
	stop := func(c model.Cause) Action {
		return &StopJob{Job: id, Attempt: 1, Cause: c, For: te}
	}
	start := &StartJob{Job: te, Places: []model.Place{{Node: "n1", GPUs: []int{3}}}}
	refused := func(a Action) error {
		t.Helper()
		result, err := w.apply(CommitPlan{BasedOn: w.s.Index(), Actions: []Action{a}})
		if err != nil {
			t.Fatal(err)
		}
		return result.([]error)[0]
	}
	for _, what := range []steering.Switch{steering.Preemption, steering.DryRun, steering.All} {
		w.must(turn(what, true))
		for _, cause := range []model.Cause{model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseMigrate} {
			if err := refused(stop(cause)); !errors.Is(err, model.ErrPaused) {
				t.Errorf("%s with %s on: %v", cause, what, err)
			}
		}
		if err := refused(start); what == steering.All && !errors.Is(err, model.ErrPaused) {
			t.Errorf("a start with %s on: %v", what, err)
		} else if what != steering.All && errors.Is(err, model.ErrPaused) {
			t.Errorf("a start is refused with %s on", what)
		}
		w.must(turn(what, false))
	}
	w.must(turn(steering.All, true))
	if err := refused(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout}); err != nil {
		t.Errorf("a time limit while all is paused: %v", err)
	}
}

// TestRecordsOfADryRun: each is one event, none outlives the dry run, and without one nothing is
// recorded.
func TestRecordsOfADryRun(t *testing.T) {
	w := newWorld(t)
	w.must(RegisterNode{Node: testNode("n1", 4)})
	id := w.running(1, []string{"n1"})
	te := w.submit(1, 1, func(j *jobspec.Job) { j.Class = jobspec.TE })
	plan := CommitPlan{Would: []steering.Displacement{{Job: id, Attempt: 1, For: te, Cause: model.CauseTE, GraceMS: 5000}}}
	w.must(plan)
	if n := len(w.s.View().Displacements()); n != 0 {
		t.Fatalf("%d are recorded without a dry run", n)
	}
	w.must(turn(steering.DryRun, true))
	from := w.s.Index()
	w.must(plan)
	w.must(plan)
	events := w.s.View().Events(from)
	if len(events) != 1 || events[0].Type != model.EventWouldPreempt || events[0].Job != id || events[0].For != te ||
		events[0].Cause != model.CauseTE || events[0].Text != "grace 5 s, 0 GPU s lost" {
		t.Errorf("events %+v", events)
	}
	if err := w.s.Check(); err != nil {
		t.Error(err)
	}
	again, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	if err != nil || len(again.View().Displacements()) != 1 {
		t.Errorf("after a restart: %v", err)
	}
	w.ok(w.control(model.VerbCancel, 1000, false, te))
	if n := len(w.s.View().Displacements()); n != 0 {
		t.Errorf("%d displacements for a job that waits no more", n)
	}
	w.must(turn(steering.DryRun, false))
	if n := len(w.s.View().Steering().Displacements); n != 0 {
		t.Errorf("%d records outlive the dry run", n)
	}
}
