package schedtest

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/steering"
)

// turn turns a switch of the scheduler on or off: preemption on.
func (w *World) turn(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("turn SWITCH on|off, not %q", words)
	}
	_, err := w.Apply(fsm.Steer{What: steering.Switch(words[0]), On: words[1] == "on", By: "root"})
	return err
}

// wouldDo describes the actions that a dry run would have taken.
func (w *World) wouldDo(d *steering.Displacement) string {
	text := fmt.Sprintf("would stop %s: %s", w.Names[d.Job], d.Cause)
	if d.For != 0 {
		text += " for " + w.Names[d.For]
	}
	return text + ", " + d.Cost()
}
