package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/peers"
)

// addControllers makes controllers voters that gossip knows and the log does not. A voter that
// cannot do its part is worse than none, since a majority then needs one more of the others. So
// each is met before it is added.
func (l *Leader) addControllers(ctx context.Context) error {
	for {
		l.addOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-l.Peers.Changed():
		case <-time.After(5 * time.Second): // one that could not be added is tried again
		}
	}
}

func (l *Leader) addOnce(ctx context.Context) {
	known := map[string]string{}
	for _, m := range l.Replica.Members() {
		known[m.Name] = m.Addr
	}
	for _, p := range l.Peers.All() {
		addr, ok := known[p.Name]
		if addr == p.Raft {
			continue
		}
		if !ok && len(known) >= peers.MaxControllers {
			l.Log.Warn("controller not added: a cluster has at most five", "controller", p.Name)
			continue
		}
		if err := l.unfit(ctx, p); err != nil {
			l.Log.Warn("controller not added", "controller", p.Name, "error", err)
			continue
		}
		if err := l.Replica.AddVoter(ctx, consensus.Member{Name: p.Name, Addr: p.Raft}); err != nil {
			l.Log.Warn("controller not added", "controller", p.Name, "error", err)
			continue
		}
		known[p.Name] = p.Raft
		l.Log.Info("controller added", "controller", p.Name, "raft", p.Raft)
	}
}

// unfit returns why a controller cannot be a voter of this cluster, nil if it can.
func (l *Leader) unfit(ctx context.Context, p member.Peer) error {
	s, err := l.Peers.Meet(ctx, p)
	if err != nil {
		return err
	}
	if version := l.Replica.View().Config().Version; s.Knows < version {
		return fmt.Errorf("it knows cluster version %d and this cluster has %d: install the version that the others run",
			s.Knows, version)
	}
	if ours := l.Replica.Members(); s.HasState && len(s.Voters) > 0 &&
		!slices.ContainsFunc(s.Voters, func(v consensus.Member) bool {
			return slices.Contains(ours, v)
		}) {
		return errors.New("it has the log of another cluster: move its data directory away and have it join " +
			"this one with a new token")
	}
	return nil
}
