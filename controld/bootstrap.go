package controld

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/consensus"
)

// bootstrap makes this controller part of a cluster. A controller with state belongs to one
// already. The first, by name, of the expected controllers makes a new cluster, once it sees them
// all and none has state; the others hear from it. Any other controller waits until a leader adds
// it.
func (d *daemon) bootstrap(ctx context.Context) error {
	for !d.replica.HasState() && d.cfg.expect() > 0 {
		if members := d.founders(ctx); members != nil {
			if err := d.replica.Bootstrap(members); err != nil {
				return fmt.Errorf("bootstrap: %w", err)
			}
			d.log.Info("new cluster", "controllers", len(members))
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return nil
		}
	}
	return nil
}

// founders returns the voters of a new cluster if it is for this controller to make it, and now.
func (d *daemon) founders(ctx context.Context) []consensus.Member {
	members := []consensus.Member{d.replica.Self()}
	if d.cfg.expect() == 1 {
		return members
	}
	for _, p := range d.peers.All() {
		if p.Name < d.cfg.Name {
			return nil // the first by name makes it
		}
		members = append(members, consensus.Member{Name: p.Name, Addr: p.Raft})
	}
	if len(members) != d.cfg.expect() {
		return nil
	}
	for _, p := range d.peers.All() {
		if s, err := d.peers.Meet(ctx, p); err != nil || s.HasState {
			return nil
		}
	}
	return members
}

// pause waits until the time has passed or ctx ends, and reports whether ctx is alive.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
