package fsm

import (
	"fmt"
	"slices"

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
func (c SetConfig) apply(s *State) (any, error) {
	if err := checkConfig(&c.Config); err != nil {
		return nil, err
	}
	// A shorter lease is one for what is told of it. What was told before goes by the old one, and its node may never hear of the new.
	if old := s.v.config.LeaseSpan(); old > c.Config.LeaseSpan() && s.v.anyLive() {
		s.v.leasedUntil = max(s.v.leasedUntil, s.v.at+old)
	}
	// Kinds of a version are in the log once it was raised: it never goes back, whatever order proposals come in.
	c.Config.Version = max(c.Config.Version, s.v.config.Version)
	s.v.config = &c.Config
	if s.touched.everything(); !slices.Equal(modelsIn(s.v.config), s.v.models) {
		s.rebuildRuns()
	}
	s.emit(model.Event{Type: model.EventConfig})
	return nil, nil
}

// checkConfig refuses what would make the state misbehave. What is merely unwise is for the proposer to report.
func checkConfig(c *model.Config) error {
	switch {
	case len(c.Queues) == 0:
		return fmt.Errorf("no queue: %w", model.ErrBadConfig)
	case len(c.Queues) > model.MaxQueues:
		return fmt.Errorf("%d queues, at most %d: %w", len(c.Queues), model.MaxQueues, model.ErrBadConfig)
	case c.LeaseMS <= 0 || c.MarginMS < 0 || c.NodeDownMS <= 0:
		return fmt.Errorf("lease and node_down must be positive: %w", model.ErrBadConfig)
	}
	if err := model.CheckAccounts(c); err != nil {
		return fmt.Errorf("%w: %w", model.ErrBadConfig, err)
	}
	return nil
}
