package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// authorityPhase is how long each phase of a replacement of the authority lasts at least. Connections that
// are idle for 90 seconds are closed, so that none with an old certificate is left.
const authorityPhase = 2 * time.Minute

// authorityMost is when the old authority goes even if machines have no other certificate: those that it has
// issued have ended then, by themselves.
const authorityMost = pki.Life + 24*time.Hour

// replaceAuthority carries on a replacement of the authority. Nothing is issued with the new key until every controller
// has it. The old authority stays as long as a controller or a registered machine needs it.
func (l *Leader) replaceAuthority(ctx context.Context) error {
	least := authorityPhase
	if l.Fast {
		least /= 40
	}
	waits := 0 // for how many members
	for pause(ctx, gossipKeyLook) {
		v := l.Replica.View()
		a := v.Trust().Authority
		if a == nil || a.Phase == trust.AuthorityDone || l.Lacking == nil {
			continue
		}
		age := time.Duration(l.Replica.Now(v)-a.Since) * time.Millisecond
		if age < least {
			continue
		}
		controllers, machines := l.Lacking(ctx, v)
		if n := len(controllers) + len(machines); n != waits {
			waits = n
			list := slices.Concat(controllers, machines)
			l.Log.Info("the replacement of the authority is waiting for members", "number", a.Number, "phase", string(a.Phase),
				"waits for", n, "the first", list[:min(n, 5)])
		}
		if len(controllers) > 0 || len(machines) > 0 && age < authorityMost {
			continue
		}
		_, err := l.Replica.Propose(ctx, fsm.AdvanceAuthority{Number: a.Number, Phase: a.Phase,
			Gossip: fsm.RotateGossipKey{Text: rand.Text(), Authority: pki.NameOfNext(a.Succession)}})
		switch {
		case ctx.Err() != nil || lostLead(err):
			return err
		case errors.Is(err, trust.ErrAuthorityPhase): // another leader was quicker
		case errors.Is(err, trust.ErrKeyChange): // that of the gossip is soon over
		case err != nil:
			l.Log.Warn("cannot continue the replacement of the authority; trying again", "error", err)
		default:
			l.Log.Info("replacement of the authority", "number", a.Number, "phase over", string(a.Phase))
		}
	}
	return context.Cause(ctx)
}
