package noded

import (
	"context"
	"fmt"
)

// Alive returns nil once the agent's loop has answered, which it does after it has found the
// containers that run here. Otherwise it returns an error when ctx ends.
func (a *Agent) Alive(ctx context.Context) error {
	answer := make(chan struct{})
	select {
	case a.questions <- answer:
	case <-ctx.Done():
		return fmt.Errorf("the loop that watches containers does not turn: %w", context.Cause(ctx))
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the agent's state stays locked: %w", context.Cause(ctx))
	}
}

// status says in one line what this node does.
func (a *Agent) status() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	running := 0
	for _, w := range a.workers {
		if w.Exists() {
			running++
		}
	}
	text := fmt.Sprintf("%d workers", running)
	if running == 1 {
		text = "1 worker"
	}
	if !a.desiredKnown {
		return "no controller has answered yet, " + text
	}
	return "registered, " + text
}

// status says in one line what a login node does.
func (c *controllers) status() string {
	_, addrs, err := c.current()
	switch {
	case err != nil:
		return err.Error()
	case len(addrs) == 1:
		return "login node, 1 controller is known"
	}
	return fmt.Sprintf("login node, %d controllers are known", len(addrs))
}

// gossipTurns returns nil once the list of members has answered: what a login node has for a loop.
func (d *daemon) gossipTurns(context.Context) error {
	d.list.Peers()
	return nil
}
