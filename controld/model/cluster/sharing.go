package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Sharing says how jobs of a queue or of an account may share nodes under overload, after Gandiva
// (Xiao et al., OSDI 2018). It concerns best-effort jobs that can be suspended.
type Sharing struct {
	// Oversubscribe is how many times the GPUs of a node jobs may ask for that take turns on it; 0:
	// they take no turns.
	Oversubscribe int  `json:"oversubscribe,omitempty"`
	Pack          bool `json:"pack,omitempty"`    // several jobs may be put on one GPU
	Migrate       bool `json:"migrate,omitempty"` // jobs may move to other nodes
}

// MaxOversubscribe bounds [Sharing.Oversubscribe]: with so many jobs on a GPU each would have a turn
// an hour.
const MaxOversubscribe = 60

// SharingOf returns what holds for a job: what its queue or its account allows, or an account above
// it. Each of them can only allow more: an operator lets a queue share, or a group of users.
func (c *Config) SharingOf(j *model.Job) Sharing {
	s, account := c.Queues[j.Queue].Sharing, j.Account
	for range maxDepth + 1 {
		a, ok := c.Accounts[account]
		if !ok {
			break
		}
		s = s.with(a.Sharing)
		account = a.Parent
	}
	return s
}

// with returns what either allows.
func (s Sharing) with(o Sharing) Sharing {
	return Sharing{Oversubscribe: max(s.Oversubscribe, o.Oversubscribe), Pack: s.Pack || o.Pack,
		Migrate: s.Migrate || o.Migrate}
}

// Migrates reports whether any queue or account lets its jobs move to other nodes.
func (c *Config) Migrates() bool { return c.allowed().Migrate }

// Shares reports whether any queue or account lets its jobs share nodes.
func (c *Config) Shares() bool { return c.allowed() != Sharing{} }

// allowed returns what any queue or account allows.
func (c *Config) allowed() (any Sharing) {
	for _, q := range c.Queues {
		any = any.with(q.Sharing)
	}
	for _, a := range c.Accounts {
		any = any.with(a.Sharing)
	}
	return any
}

// TakesTurns reports whether any queue or account has jobs take turns on GPUs or puts several on one.
func (c *Config) TakesTurns() bool {
	any := c.allowed()
	return any.Oversubscribe > 1 || any.Pack
}

// CheckSharing returns why what a configuration says of sharing cannot be used, or nil.
func (c *Config) CheckSharing() error {
	check := func(of string, s Sharing) error {
		if s.Oversubscribe < 0 || s.Oversubscribe > MaxOversubscribe {
			return fmt.Errorf("%s: oversubscribe = %d: must be from 1 (none) to %d", of, s.Oversubscribe,
				MaxOversubscribe)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		if err := check("queue "+quote(name), c.Queues[name].Sharing); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Accounts)) {
		if err := check("account "+quote(name), c.Accounts[name].Sharing); err != nil {
			return err
		}
	}
	return nil
}
