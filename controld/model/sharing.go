package model

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

// SliceMS is for how long a job runs, in milliseconds, before others on its node have their turn.
const SliceMS = 60_000

// SharingOf returns what holds for a job: what its queue or its account allows.
func (c *Config) SharingOf(j *Job) Sharing {
	q, a := c.Queues[j.Queue].Sharing, c.Accounts[j.Account].Sharing
	return Sharing{Oversubscribe: max(q.Oversubscribe, a.Oversubscribe), Pack: q.Pack || a.Pack, Migrate: q.Migrate || a.Migrate}
}

// Migrates reports whether any queue or account lets its jobs move to other nodes.
func (c *Config) Migrates() bool {
	for _, q := range c.Queues {
		if q.Sharing.Migrate {
			return true
		}
	}
	for _, a := range c.Accounts {
		if a.Sharing.Migrate {
			return true
		}
	}
	return false
}

// Shares reports whether any queue or account lets its jobs share nodes.
func (c *Config) Shares() bool {
	for _, q := range c.Queues {
		if q.Sharing != (Sharing{}) {
			return true
		}
	}
	for _, a := range c.Accounts {
		if a.Sharing != (Sharing{}) {
			return true
		}
	}
	return false
}
