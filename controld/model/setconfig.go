package model

// LeaseSpan is how long after its node was last heard of a worker may still run.
func (c *Config) LeaseSpan() Instant { return Instant(c.LeaseMS + c.MarginMS) }
