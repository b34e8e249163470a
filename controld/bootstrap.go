package controld

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// bootstrap makes the log of a new cluster if this controller was made by rota-controld init and has
// none yet. Any other controller without a log waits until a leader adds it.
func (d *daemon) bootstrap(context.Context) error {
	if !d.credential.Founder {
		return nil
	}
	if !d.replica.HasState() {
		if c := d.cfg.Cluster; c != nil {
			if err := cluster.MayRun(c.Policy.Name, ""); err != nil {
				return fmt.Errorf("new cluster: policy.name in the configuration file: %w", err)
			}
		}
		if err := d.replica.Bootstrap([]consensus.Member{d.replica.Self()}); err != nil {
			return fmt.Errorf("bootstrap: %w", err)
		}
		d.log.Info("new cluster", "cluster", d.credential.Member.Cluster)
	}
	return d.credential.Founded()
}

// watchCluster stops a controller whose log is of another cluster than its certificate.
func (d *daemon) watchCluster(ctx context.Context) error {
	_, _, err := d.replica.Until(ctx, func(v *state.View) bool { return v.Trust().Cluster != "" }, nil)
	if err != nil {
		return nil // the daemon stops
	}
	if id := d.replica.View().Trust().Cluster; id != d.credential.Member.Cluster {
		return fmt.Errorf("the log in %s belongs to cluster %s, but the certificate to cluster %s: start with the data "+
			"directory that belongs to the certificate", d.cfg.DataDir, id, d.credential.Member.Cluster)
	}
	return nil
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
