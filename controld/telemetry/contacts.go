// Package telemetry keeps reports of nodes that only the leader has: the last contact of each node,
// and the progress of its jobs. The log does not have them, so a new leader starts with nothing.
package telemetry

import (
	"sync"
	"time"
)

// Contacts records when each node was last heard of. A new leader gives every node its full time
// again. The zero value belongs to a controller that has never led, and records nothing.
type Contacts struct {
	mu    sync.Mutex
	began time.Time            // start of the leadership
	last  map[string]time.Time // by node
	check chan struct{}        // has one element when nodes should be checked
}

// Restart forgets every contact, when this controller becomes the leader.
func (c *Contacts) Restart(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.last, c.check = now, map[string]time.Time{}, make(chan struct{}, 1)
}

// Heard records that a node made contact; down is true if the state has the node as down.
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

// Last returns when a node was last heard of, or when this leadership started.
func (c *Contacts) Last(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.last[node]; ok {
		return at
	}
	return c.began
}

// Seen returns when a node was last heard of in this leadership, or zero.
func (c *Contacts) Seen(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[node]
}

// Due delivers when nodes should be checked at once: a node that is down was heard of, or Wake was
// called.
func (c *Contacts) Due() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.check
}
