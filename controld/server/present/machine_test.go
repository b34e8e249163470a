package present

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// machine is a state machine to which a test applies commands. The wall clock is an hour ahead of
// the log's.
type machine struct {
	t     *testing.T
	s     *fsm.Machine
	index uint64
	at    model.Instant // in seconds
}

func (w *machine) wall() model.UnixMS { return model.UnixMS(w.at+3600) * 1000 }

func (w *machine) apply(c fsm.Command) any {
	w.t.Helper()
	w.index++
	result, err := w.s.Apply(w.index, fsm.Entry{Stamp: model.Stamp{At: w.at * 1000, Wall: w.wall()}, Command: c})
	if err != nil {
		w.t.Fatalf("%s: %v", c.Kind(), err)
	}
	return result
}

func (w *machine) plan(a fsm.Action) {
	w.t.Helper()
	for _, err := range w.apply(fsm.CommitPlan{Actions: []fsm.Action{a}}).([]error) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
