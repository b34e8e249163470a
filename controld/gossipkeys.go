package controld

import (
	"context"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// followGossipKeys has this controller use the keys of the gossip that the log names. Other members ask the
// controllers for them.
func (d *daemon) followGossipKeys(ctx context.Context) error {
	var seen *trust.GossipKeys
	for {
		v, _, err := d.replica.Until(ctx, func(v *state.View) bool { return v.Trust().Gossip != seen }, nil)
		if err != nil {
			return nil // ctx has ended
		}
		seen = v.Trust().Gossip
		if seen == nil {
			continue
		}
		named := make([]pki.NamedKey, len(seen.Keys))
		for i, k := range seen.Keys {
			named[i] = pki.NamedKey{Number: k.Number, Text: k.Text, Authority: k.Authority}
		}
		keys, err := d.credential.GossipKeysOf(named)
		if err == nil {
			err = d.gossip.SetKeys(keys)
		}
		if err != nil {
			d.log.Error("cannot use the gossip keys that the log names", "error", err)
			continue
		}
		d.log.Info("gossip keys", "in use", seen.Keys[0].Number, "phase", string(seen.Phase))
	}
}
