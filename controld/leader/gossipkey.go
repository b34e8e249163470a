package leader

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// gossipKeyPhase is how long each phase of a gossip key change lasts. Members that are up ask for
// the keys every 15 seconds. A member that was down asks when it returns, by mutual TLS.
const gossipKeyPhase = time.Minute

// gossipKeyLook is how often a leader looks whether a phase is over.
const gossipKeyLook = time.Second

// changeGossipKey carries on a change of the key of the gossip.
func (l *Leader) changeGossipKey(ctx context.Context) error {
	for pause(ctx, gossipKeyLook) {
		v := l.Replica.View()
		g := v.Trust().Gossip
		if g == nil || g.Phase == trust.GossipDone || l.Replica.Now(v)-g.Since < model.Instant(l.phase().Milliseconds()) {
			continue
		}
		_, err := l.Replica.Propose(ctx, fsm.AdvanceGossipKey{Number: g.Newest(), Phase: g.Phase})
		switch {
		case ctx.Err() != nil || lostLead(err):
			return err
		case errors.Is(err, trust.ErrKeyPhase): // another leader was quicker
		case err != nil:
			l.Log.Warn("cannot continue the replacement of the gossip key; trying again", "error", err)
		default:
			l.Log.Info("replacement of the gossip key", "key", g.Newest(), "phase over", string(g.Phase))
		}
	}
	return context.Cause(ctx)
}

func (l *Leader) phase() time.Duration {
	if l.Fast {
		return gossipKeyPhase / 20
	}
	return gossipKeyPhase
}
