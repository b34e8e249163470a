package fsm

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// KindSteer is the kind of [Steer].
var KindSteer = newKind("steer/1")

// Steer turns a switch of the scheduler on or off: a pause of one of its parts, or the dry run. One
// that is as it should be already stays; a further reason takes the place of the present one.
type Steer struct {
	What   steering.Switch `json:"what"`             // the switch
	On     bool            `json:"on"`               // to turn it on, or off
	By     string          `json:"by"`               // user
	Reason string          `json:"reason,omitempty"` // shown to users
}

// Kind implements Command.
func (Steer) Kind() Kind { return KindSteer }

// apply turns the switch.
func (c Steer) apply(m *Machine) (any, error) {
	have := m.v.Steering()
	old := have.Setting(c.What)
	is := old != nil
	switch {
	case !c.What.Known() || len(c.Reason) > steering.MaxReason:
		return nil, fmt.Errorf("%q: %w", c.What, model.ErrBadSwitch)
	case c.On:
		m.s.SetSteering(have.TurnOn(steering.Setting{What: c.What, By: c.By, Reason: c.Reason, Since: m.s.Now()}))
		if is && (c.Reason == "" || c.Reason == old.Reason) {
			return nil, nil
		}
	case !is && c.What != steering.DryRun && c.What != steering.All && have.Setting(steering.All) != nil:
		return nil, fmt.Errorf("%s: %w", c.What, model.ErrStillPaused)
	default:
		next := have.TurnOff(c.What)
		if len(next.Settings) == len(have.Settings) {
			return nil, nil
		}
		m.s.SetSteering(next)
	}
	m.s.Emit(model.Event{Type: c.event(), Text: c.text()})
	return nil, nil
}

func (c *Steer) event() model.EventType {
	switch {
	case c.What == steering.DryRun && c.On:
		return model.EventDryRunOn
	case c.What == steering.DryRun:
		return model.EventDryRunOff
	case c.On:
		return model.EventPaused
	}
	return model.EventResumed
}

// text says in an event what a switch was turned for.
func (c *Steer) text() string {
	text := "by " + cmp.Or(c.By, "an operator")
	if c.What != steering.DryRun {
		text = string(c.What) + " " + text
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

// recordDisplacements notes what a cycle would have done but for the dry run. New records become
// events.
func (m *Machine) recordDisplacements(would []steering.Displacement) {
	have := m.v.Steering()
	if len(would) == 0 || have.Setting(steering.DryRun) == nil {
		return
	}
	all, fresh := steering.Record(have.Displacements, would, m.s.Now(), m.v.MayDisplace)
	m.s.SetSteering(&steering.Steering{Settings: have.Settings, Displacements: all})
	for _, d := range fresh {
		m.s.Emit(model.Event{Type: model.EventWouldPreempt, Job: d.Job, Attempt: d.Attempt, Cause: d.Cause, For: d.For,
			Text: d.Cost()})
	}
}
