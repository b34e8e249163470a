package controld

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
)

// raiseEvery is how often a leader asks the other controllers which cluster version they know, while it knows a greater
// one than the cluster has.
const raiseEvery = 2 * time.Second

// raise sees to it that the cluster uses the greatest version that all of its controllers know.
func (d *daemon) raise(ctx context.Context) error {
	for {
		err := d.raiseOnce(ctx)
		if ctx.Err() != nil || lostLead(err) {
			return err
		}
		if err == nil && d.machine.view.Load().Config().Version >= d.cfg.latestVersion() {
			return nil
		}
		if !d.pause(ctx, raiseEvery) {
			return context.Cause(ctx)
		}
	}
}

// raiseOnce proposes a greater version if every voter knows it.
func (d *daemon) raiseOnce(ctx context.Context) error {
	have := d.machine.view.Load().Config()
	if have.Version >= d.cfg.latestVersion() {
		return nil
	}
	known, err := d.knownByAll(ctx)
	if err != nil || known <= have.Version {
		return err
	}
	next := *have
	next.Version = known
	if _, _, err := d.propose(ctx, cluster.SetConfig{Config: next}); err != nil {
		return fmt.Errorf("raise the cluster version to %d: %w", known, err)
	}
	d.log.Info("cluster version raised", "from", have.Version, "to", known)
	return nil
}

// knownByAll returns the greatest version that every voter knows. One that does not say knows the first.
func (d *daemon) knownByAll(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	known := d.cfg.latestVersion()
	for _, m := range d.replica.Members() {
		if m.Name == d.cfg.Name {
			continue
		}
		p, ok := d.controller(m.Name)
		if !ok {
			return 0, fmt.Errorf("controller %s is not to be seen", m.Name)
		}
		s, err := d.stateOf(ctx, p)
		if err != nil {
			return 0, err
		}
		known = min(known, max(1, s.Knows))
	}
	return known, nil
}
