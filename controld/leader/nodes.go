package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// watchNodes marks nodes as down that were silent for too long, and as up when they speak again.
func (l *Leader) watchNodes(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, err := l.checkNodes(ctx, time.Now())
		if err != nil {
			return err
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-l.Contacts.Due():
		}
	}
}

// checkNodes proposes the changes of nodes, and returns the time until the next check.
func (l *Leader) checkNodes(ctx context.Context, now time.Time) (time.Duration, error) {
	v := l.Replica.View()
	silence := time.Duration(v.Config().NodeDownMS) * time.Millisecond
	next := silence
	for _, n := range v.Nodes() {
		quiet := now.Sub(l.Contacts.Last(n.Name))
		want := n.State
		switch {
		case n.State != model.NodeDown && quiet > silence: // a drained one too: its jobs may have to run elsewhere
			want = model.NodeDown
		case n.State == model.NodeDown && quiet <= silence && !l.Contacts.Seen(n.Name).IsZero():
			want = model.NodeUp
		case n.State != model.NodeDown:
			next = min(next, silence-quiet+time.Millisecond)
		}
		if want == n.State {
			continue
		}
		if err := l.setNode(ctx, n, want, quiet); err != nil {
			return 0, err
		}
	}
	return next, nil
}

func (l *Leader) setNode(ctx context.Context, n *model.Node, to model.NodeState, quiet time.Duration) error {
	c := fsm.SetNodeState{Node: n.Name, BootID: n.BootID, State: to}
	if to == model.NodeDown {
		c.Reason = fmt.Sprintf("not heard of for %d s", int(quiet.Seconds()))
	}
	_, err := l.Replica.Propose(ctx, c)
	if err == nil {
		l.Log.Info("node is "+string(to), "node", n.Name, "reason", c.Reason)
		return nil
	}
	if lostLead(err) || ctx.Err() != nil {
		return err
	}
	l.Log.Warn("cannot change the state of a node", "node", n.Name, "to", to, "error",
		err) // it has registered again meanwhile
	return nil
}
