// Package telemetry keeps what nodes tell the leader and the log does not have: when each was last
// heard of, and the progress of its jobs. It is volatile: a new leader begins with nothing.
package telemetry

import (
	"sync"
	"time"
)

// Contacts remembers when each node was last heard of. A new leader gives every node its full time
// again. The zero value is that of a controller that has never led, and remembers nothing.
type Contacts struct {
	mu    sync.Mutex
	began time.Time            // of leadership
	last  map[string]time.Time // by node
	check chan struct{}        // has one element when nodes should be checked
}

// Restart forgets every contact, when this controller becomes the leader.
func (c *Contacts) Restart(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.last, c.check = now, map[string]time.Time{}, make(chan struct{}, 1)
}

// Heard notes that a node spoke. Down says that the state has it as down.
func (c *Contacts) Heard(node string, now time.Time, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return
	}
	c.last[node] = now
	if down {
		c.wake()
	}
}

// Wake makes Due deliver.
func (c *Contacts) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

// wake is Wake with mu held.
func (c *Contacts) wake() {
	select {
	case c.check <- struct{}{}:
	default:
	}
}

// Last returns when a node was last heard of, or when this controller began to lead.
func (c *Contacts) Last(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.last[node]; ok {
		return at
	}
	return c.began
}

// Seen returns when a node was last heard of, zero if it was not since this controller began to
// lead.
func (c *Contacts) Seen(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[node]
}

// Due delivers when nodes should be checked at once: one that is down was heard of, or Wake was
// called.
func (c *Contacts) Due() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.check
}
