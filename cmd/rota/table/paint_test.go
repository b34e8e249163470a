package table_test

import (
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/present"
)

// TestEveryStateHasAColour: its letters and its name have the same one, and only failures are red.
func TestEveryStateHasAColour(t *testing.T) {
	failures := map[model.JobState]bool{model.Failed: true, model.TimedOut: true, model.OutOfMemory: true,
		model.NodeFailed: true, model.BootFailed: true, model.PastDue: true}
	if len(present.StateNames) < 15 {
		t.Errorf("%d states only", len(present.StateNames))
	}
	for state, name := range present.StateNames {
		letters, word := table.StateOf(string(state)), table.StateOf(name)
		if letters != word || letters == table.Plain || (letters == table.Bad) != failures[state] {
			t.Errorf("%s has the colour %q, and %s %q", state, letters, name, word)
		}
	}
	for state, want := range map[string]table.Paint{"idle": table.Good, "mix": table.Good, "alloc": table.Good,
		"down": table.Bad, "drain": table.Waiting, "drng": table.Moving, "unknown": table.Plain, "": table.Plain} {
		if got := table.StateOf(state); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	for code, want := range map[string]table.Paint{"0:0": table.Plain, "1:0": table.Bad, "0:9": table.Bad,
		"0:125": table.Bad, "-": table.Plain, "": table.Plain, "0:0 (code:signal)": table.Plain,
		"2:0 (code:signal)": table.Bad} {
		if got := table.ExitOf(code); got != want {
			t.Errorf("exit %s: %q, want %q", code, got, want)
		}
	}
	for cause, want := range map[model.Cause]table.Paint{model.CauseFailed: table.Bad, model.CauseOOM: table.Bad,
		model.CauseNodeLost: table.Bad, model.CauseTE: table.Waiting, model.CauseCompleted: table.Plain, "-": table.Plain} {
		if got := table.CauseOf(string(cause)); got != want {
			t.Errorf("cause %s: %q, want %q", cause, got, want)
		}
	}
}
