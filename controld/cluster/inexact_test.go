package cluster

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// inexactPlans are plans that say of a stop, or of a resize, that it is not proven to cost the least.
func inexactPlans() map[string]CommitPlan {
	stop, resize := &StopJob{Job: 1, Attempt: 1, Cause: CauseTE, For: 2, Inexact: true}, &ResizeJob{Job: 1, Attempt: 1, Leave: []int{0}, For: 2, Inexact: true}
	return map[string]CommitPlan{
		"stop":   {BasedOn: 1, Actions: []Action{{Stop: stop}}},
		"resize": {BasedOn: 1, Actions: []Action{{Resize: resize}}},
		"last":   {BasedOn: 1, Actions: []Action{{Stop: &StopJob{Job: 3, Attempt: 1, Cause: CauseTE}}, {Stop: stop}}},
	}
}

func TestInexactIsOfPlan3Alone(t *testing.T) {
	for name, p := range inexactPlans() {
		if _, err := Encode(Entry{Command: p}); !errors.Is(err, errPlanField) {
			t.Errorf("%s: commit-plan/1 is written: %v", name, err)
		}
		if _, err := Encode(Entry{Command: CommitPlan2{p}}); !errors.Is(err, errPlanField2) {
			t.Errorf("%s: commit-plan/2 is written: %v", name, err)
		}
		want := Entry{Command: p.Command(3)}
		line, err := Encode(want)
		if err != nil || want.Command.Kind() != KindCommitPlan3 {
			t.Fatalf("%s: as %s: %v", name, want.Command.Kind(), err)
		}
		if back, err := Decode(line); err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%s: got %+v, %v", name, back, err)
		}
		for kind, refused := range map[Kind]error{KindCommitPlan: errPlanField, KindCommitPlan2: errPlanField2} {
			older := bytes.Replace(line, []byte(KindCommitPlan3), []byte(kind), 1)
			if _, err := Decode(older); !errors.Is(err, refused) {
				t.Errorf("%s: %s reads %s: %v", name, kind, older, err)
			}
		}
	}
	exact := CommitPlan{Actions: []Action{{Stop: &StopJob{Job: 1, Attempt: 1, Cause: CauseTE, For: 2}}}}
	if kind := exact.Command(3).Kind(); kind != KindCommitPlan2 {
		t.Errorf("a plan whose stops are exact is written as %s", kind)
	}
}

// TestInexactChangesNothing: what is not proven to cost the least is done like anything else.
func TestInexactChangesNothing(t *testing.T) {
	after := func(inexact bool) []byte {
		w := elasticWorld(t)
		whole := w.submit(1, 4)
		w.ok(w.start(whole, "n1"))
		w.run(whole)
		part := w.stretch(4, []string{"n2", "n3"}, elastic(1, 2))
		taker := w.submit(2, 4)
		w.ok(w.plan3(Action{Stop: &StopJob{Job: whole, Attempt: 1, Cause: CauseTE, For: taker, Inexact: inexact}}))
		w.ok(w.plan3(Action{Resize: &ResizeJob{Job: part, Attempt: 1, Leave: []int{1}, For: taker, Inexact: inexact}}))
		return w.snapshot()
	}
	if is, would := after(true), after(false); !bytes.Equal(is, would) {
		t.Errorf("got\n%s\nwant\n%s", is, would)
	}
}
