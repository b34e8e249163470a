package fsm

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// inexactPlans are plans that say of a stop, or of a resize, that it is not proven to cost the
// least.
func inexactPlans() map[string]CommitPlan {
	stop, resize := &StopJob{Job: 1, Attempt: 1, Cause: model.CauseTE, For: 2, Inexact: true},
		&ResizeJob{Job: 1, Attempt: 1, Leave: []int{0}, For: 2, Inexact: true}
	return map[string]CommitPlan{
		"stop":   {BasedOn: 1, Actions: []Action{stop}},
		"resize": {BasedOn: 1, Actions: []Action{resize}},
		"last":   {BasedOn: 1, Actions: []Action{&StopJob{Job: 3, Attempt: 1, Cause: model.CauseTE}, stop}},
	}
}

func TestInexactIsWritten(t *testing.T) {
	for name, p := range inexactPlans() {
		want := Entry{Command: p}
		line, err := Encode(want)
		if err != nil || !bytes.Contains(line, []byte(`"inexact":true`)) {
			t.Fatalf("%s: %s, %v", name, line, err)
		}
		if back, err := Decode(line); err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%s: got %+v, %v", name, back, err)
		}
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
		w.ok(w.plan(&StopJob{Job: whole, Attempt: 1, Cause: model.CauseTE, For: taker, Inexact: inexact}))
		w.ok(w.plan(&ResizeJob{Job: part, Attempt: 1, Leave: []int{1}, For: taker, Inexact: inexact}))
		return w.snapshot()
	}
	if is, would := after(true), after(false); !bytes.Equal(is, would) {
		t.Errorf("got\n%s\nwant\n%s", is, would)
	}
}
