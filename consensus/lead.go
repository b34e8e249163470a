package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// reign is one period of leadership of this member.
type reign struct {
	ctx    context.Context // ends with it; the cause says why
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when every entry of earlier leaders has been applied here
}

// watchLeadership turns the library's notices into reigns. It never blocks for long, because the library waits for it.
func (n *Node) watchLeadership() {
	for {
		select {
		case leads := <-n.elected:
			n.setReign(leads)
		case <-n.observed:
			n.announce()
		case <-n.dead:
			return
		}
	}
}

// announce wakes all that wait for a leader.
func (n *Node) announce() {
	m, ok := n.Leader()
	n.log.Info("leader changed", "leader", m.Name, "known", ok, "term", n.Term())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wake()
}

// wake is called with mu held.
func (n *Node) wake() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// setReign begins or ends a period of leadership.
func (n *Node) setReign(leads bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reign != nil {
		n.reign.cancel(ErrLeadershipLost)
		n.reign = nil
	}
	if leads && !n.dying {
		r := &reign{ready: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancelCause(context.Background())
		n.reign = r
		n.tasks.Go(func() { n.prepare(r) })
	}
	n.wake()
}

// prepare waits until this member has applied all that earlier leaders acknowledged.
func (n *Node) prepare(r *reign) {
	for {
		if _, err := n.Barrier(r.ctx); err == nil {
			close(r.ready)
			return
		}
		if !pause(r.ctx, time.Millisecond) {
			return
		}
	}
}

// present returns the reign, if any, and what is closed at the next change.
func (n *Node) present() (*reign, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reign, n.changed
}

// Lead calls run each time this member becomes leader, after it has applied everything that earlier leaders acknowledged. The
// context of run ends with leadership; its cause is ErrLeadershipLost, ErrStopped, or that of ctx. Lead returns when ctx ends, when
// the node stops, or when run returns an error although its context is alive.
func (n *Node) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	for {
		r, err := n.awaitReign(ctx)
		if err != nil {
			return err
		}
		if err := reignOnce(ctx, r, run); err != nil {
			return fmt.Errorf("lead: %w", err)
		}
	}
}

// awaitReign waits until this member leads and is ready.
func (n *Node) awaitReign(ctx context.Context) (*reign, error) {
	for {
		r, changed := n.present()
		var ready <-chan struct{}
		if r != nil && r.ctx.Err() == nil {
			ready = r.ready
		}
		select {
		case <-ready:
			return r, nil
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.dead:
			return nil, n.stopError()
		}
	}
}

// reignOnce calls run for the rest of r, and waits for the end of r if run returns early without an error.
func reignOnce(ctx context.Context, r *reign, run func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	defer stop()
	err := run(ctx)
	if err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// WaitLeader waits until some member is known to lead, and returns it.
func (n *Node) WaitLeader(ctx context.Context) (Member, error) {
	for {
		_, changed := n.present()
		if m, ok := n.Leader(); ok {
			return m, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Member{}, context.Cause(ctx)
		case <-n.dead:
			return Member{}, n.stopError()
		}
	}
}

// UntilOther waits until a member other than m is known to lead, or ctx ends. While none is known m may lead still.
func (n *Node) UntilOther(ctx context.Context, m Member) error {
	for {
		_, changed := n.present()
		if now, ok := n.Leader(); ok && now.Name != m.Name {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-n.dead:
			return n.stopError()
		}
	}
}

// verification is one call of Verify.
type verification struct {
	done chan error // buffered
}

// Verify makes sure that this member leads now, by asking a quorum, and that it has applied everything that was acknowledged
// before the call: what the machine shows afterwards is current. Concurrent calls share a question. Errors: *[NotLeaderError],
// ErrStopped, the cause of ctx.
func (n *Node) Verify(ctx context.Context) error {
	v := &verification{done: make(chan error, 1)}
	select {
	case n.verifies <- v:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.dead:
		return n.stopError()
	}
	select {
	case err := <-v.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.dead:
		return n.stopError()
	}
}

// verifyOnDemand answers verifications. All that wait when a question goes out share its answer; later ones wait for the next.
func (n *Node) verifyOnDemand() {
	answered := make(chan struct{}, 1)
	var waiting []*verification
	asking := false
	for {
		if !asking && len(waiting) > 0 {
			group := waiting
			waiting, asking = nil, true
			n.tasks.Go(func() {
				err := n.askQuorum()
				for _, v := range group {
					v.done <- err
				}
				answered <- struct{}{}
			})
		}
		select {
		case v := <-n.verifies:
			waiting = append(waiting, v)
		case <-answered:
			asking = false
		case <-n.dead:
			return
		}
	}
}

// askQuorum asks once.
func (n *Node) askQuorum() error {
	r, err := n.ownReign()
	if err != nil {
		return err
	}
	select {
	case <-r.ready:
	case <-r.ctx.Done():
		return n.notLeader()
	case <-n.dead:
		return n.stopError()
	}
	var uncertain *UncertainError
	err = n.wait(r.ctx, n.raft.VerifyLeader())
	if errors.Is(err, ErrLeadershipLost) || errors.As(err, &uncertain) {
		return n.notLeader()
	}
	return err
}

// ownReign returns the reign of this member. The library knows of an election a moment before watchLeadership does.
func (n *Node) ownReign() (*reign, error) {
	for {
		r, changed := n.present()
		if r != nil {
			return r, nil
		}
		if !n.IsLeader() {
			return nil, n.notLeader()
		}
		select {
		case <-changed:
		case <-n.dead:
			return nil, n.stopError()
		}
	}
}
