package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
)

// KindRaiseGeneration is the kind of [RaiseGeneration].
var KindRaiseGeneration = newKind("raise-generation/1")

// RaiseGeneration begins another generation of the cluster, with one controller. It is applied to the
// state of a controller that does not run, by rota-controld recover and rota-controld restore.
type RaiseGeneration struct {
	Generation generation.Generation `json:"generation"` // the new generation, above all that were seen
	Means      string                `json:"means"`      // see [generation.Recovery]
	Controller string                `json:"controller"` // that becomes a cluster of one
}

// Kind implements Command.
func (RaiseGeneration) Kind() Kind { return KindRaiseGeneration }

// apply begins the generation. Controllers that are gone may have given more job ids: they are left
// out. Without nodes there is nothing to be reconciled.
func (c RaiseGeneration) apply(m *Machine) (any, error) {
	old := m.v.Recovery()
	if !c.Generation.Valid() || !c.Generation.Outranks(old.Generation) {
		return nil, fmt.Errorf("generation %s after %s: %w", c.Generation, old.Generation, generation.ErrGeneration)
	}
	r := &generation.Recovery{Generation: c.Generation, Means: c.Means, Controller: c.Controller, Raised: m.s.Now(),
		Before: m.v.LastJob(), Ran: old.Ran}
	if len(m.v.Nodes()) == 0 {
		r.Settled, r.OldJobsAt = m.v.At(), m.v.At()
	}
	m.s.SkipIDs(r.Before + generation.IDGap)
	m.s.SetRecovery(r)
	m.s.Emit(model.Event{Type: model.EventGeneration, Text: fmt.Sprintf("%s began by %s on controller %s", c.Generation,
		c.Means, c.Controller)})
	return nil, nil
}
