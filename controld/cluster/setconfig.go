package cluster

import (
	"fmt"
	"slices"
)

// KindSetConfig is the kind of [SetConfig].
var KindSetConfig = newKind("set-config/1")

// SetConfig replaces the replicated configuration.
type SetConfig struct {
	Config Config `json:"config"`
}

// Kind implements Command.
func (SetConfig) Kind() Kind { return KindSetConfig }

// apply replaces the configuration, whose version never goes back.
func (c SetConfig) apply(s *State) (any, error) {
	if err := checkConfig(&c.Config); err != nil {
		return nil, err
	}
	// A shorter lease is one for what is told of it. What was told before goes by the old one, and its node may never hear of the new.
	if old := s.v.config.leaseSpan(); old > c.Config.leaseSpan() && s.v.anyLive() {
		s.v.leasedUntil = max(s.v.leasedUntil, s.v.at+old)
	}
	// Kinds of a version are in the log once it was raised: it never goes back, whatever order proposals come in.
	c.Config.Version = max(c.Config.Version, s.v.config.Version)
	s.v.config = &c.Config
	if s.touched.everything(); !slices.Equal(modelsIn(s.v.config), s.v.models) {
		s.rebuildRuns()
	}
	s.emit(Event{Type: EventConfig})
	return nil, nil
}

// leaseSpan is how long after its node was last heard of a worker may still run.
func (c *Config) leaseSpan() Instant { return Instant(c.LeaseMS + c.MarginMS) }

// checkConfig refuses what would make the state misbehave. What is merely unwise is for whoever proposes it to tell.
func checkConfig(c *Config) error {
	switch {
	case len(c.Queues) == 0:
		return fmt.Errorf("no queue: %w", ErrBadConfig)
	case len(c.Queues) > MaxQueues:
		return fmt.Errorf("%d queues, at most %d: %w", len(c.Queues), MaxQueues, ErrBadConfig)
	case c.LeaseMS <= 0 || c.MarginMS < 0 || c.NodeDownMS <= 0:
		return fmt.Errorf("lease and node_down must be positive: %w", ErrBadConfig)
	}
	if err := CheckAccounts(c); err != nil {
		return fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	return nil
}
