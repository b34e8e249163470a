package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
)

// raiseEvery is how often a leader asks the other controllers which cluster version they know,
// while it knows a greater one than the cluster has.
const raiseEvery = 2 * time.Second

// raiseVersion has the cluster use the greatest version that all of its controllers know.
func (l *Leader) raiseVersion(ctx context.Context) error {
	for {
		err := l.raiseOnce(ctx)
		if ctx.Err() != nil || lostLead(err) {
			return err
		}
		if err == nil && l.Replica.View().Config().Version >= l.Knows {
			return nil
		}
		if !pause(ctx, raiseEvery) {
			return context.Cause(ctx)
		}
	}
}

// raiseOnce proposes a greater version if every voter knows it.
func (l *Leader) raiseOnce(ctx context.Context) error {
	v := l.Replica.View()
	have := v.Config()
	if have.Version >= l.Knows {
		return nil
	}
	known, err := l.knownByAll(ctx)
	if err != nil || known <= have.Version {
		return err
	}
	next := *have
	next.Version = known
	if _, err := l.Replica.Propose(ctx, fsm.SetConfig{Config: next, Comment: "cluster version raised",
		IfVersion: v.ConfigVersions().Number()}); err != nil {
		return fmt.Errorf("raise the cluster version to %d: %w", known, err)
	}
	l.Log.Info("cluster version raised", "from", have.Version, "to", known)
	return nil
}

// knownByAll returns the greatest version that every voter knows. It is an error if one does not
// answer.
func (l *Leader) knownByAll(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	known := l.Knows
	for _, m := range l.Replica.Members() {
		if m.Name == l.Name {
			continue
		}
		p, ok := l.Peers.Find(m.Name)
		if !ok {
			return 0, fmt.Errorf("controller %s is unreachable", m.Name)
		}
		s, err := l.Peers.StateOf(ctx, p)
		if err != nil {
			return 0, err
		}
		known = min(known, s.Knows)
	}
	return known, nil
}
