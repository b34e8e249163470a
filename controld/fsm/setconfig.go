package fsm

import (
	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/model"
)

// KindSetConfig is the kind of [SetConfig].
var KindSetConfig = newKind("set-config/1")

// SetConfig replaces the replicated configuration.
type SetConfig struct {
	Config model.Config `json:"config"`
}

// Kind implements Command.
func (SetConfig) Kind() Kind { return KindSetConfig }

// apply replaces the configuration, whose version never goes back.
func (c SetConfig) apply(m *Machine) (any, error) {
	if err := admission.CheckConfig(&c.Config); err != nil {
		return nil, err
	}
	m.s.SetConfig(&c.Config)
	return nil, nil
}
