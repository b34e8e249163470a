package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// leadership is one term of this member as the leader.
type leadership struct {
	ctx    context.Context // context that ends with leadership; its cause says why
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed once every entry of earlier leaders has been applied here
}

// watchLeadership handles the library's notifications of elections. It never blocks for long,
// because the library waits for it.
func (n *Node) watchLeadership() {
	for {
		select {
		case leads := <-n.elected:
			n.setLeadership(leads)
		case <-n.observed:
			n.announceLeader()
		case <-n.stopped:
			return
		}
	}
}

// announceLeader wakes all callers that wait for a leader.
func (n *Node) announceLeader() {
	m, ok := n.Leader()
	n.log.Info("leader changed", "leader", m.Name, "known", ok, "term", n.Term())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notifyWaiters()
}

// The caller of notifyWaiters holds mu.
func (n *Node) notifyWaiters() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// setLeadership starts a leadership, or ends the current one.
func (n *Node) setLeadership(leads bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leadership != nil {
		n.leadership.cancel(ErrLeadershipLost)
		n.leadership = nil
	}
	if leads && !n.isStopped {
		r := &leadership{ready: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancelCause(context.Background())
		n.leadership = r
		n.tasks.Go(func() { n.makeReady(r) })
	}
	n.notifyWaiters()
}

// makeReady waits until this member has applied everything that earlier leaders acknowledged.
func (n *Node) makeReady(r *leadership) {
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

// currentLeadership returns this member's leadership, or nil, and a channel that closes at the next
// change.
func (n *Node) currentLeadership() (*leadership, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leadership, n.changed
}

// Lead calls run each time this member becomes leader, after it has applied everything that earlier
// leaders acknowledged. The context of run ends with leadership; its cause is ErrLeadershipLost,
// ErrStopped, or the cause of ctx. Lead returns when ctx ends, when the node stops, or when run
// returns an error while its context is still valid.
func (n *Node) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	for {
		r, err := n.awaitLeadership(ctx)
		if err != nil {
			return err
		}
		if err := leadOnce(ctx, r, run); err != nil {
			return fmt.Errorf("lead: %w", err)
		}
	}
}

// awaitLeadership waits until this member leads and is ready.
func (n *Node) awaitLeadership(ctx context.Context) (*leadership, error) {
	for {
		r, changed := n.currentLeadership()
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
		case <-n.stopped:
			return nil, n.stopError()
		}
	}
}

// leadOnce calls run during the leadership r; if run returns early without an error, leadOnce waits
// for the end of r.
func leadOnce(ctx context.Context, r *leadership, run func(ctx context.Context) error) error {
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

// WaitLeader waits until the leader is known, and returns it.
func (n *Node) WaitLeader(ctx context.Context) (Member, error) {
	return n.awaitLeader(ctx, func(Member) bool { return true })
}

// UntilOther waits until a member other than m is known to lead, or ctx ends. While the leader is
// unknown, m may still lead.
func (n *Node) UntilOther(ctx context.Context, m Member) error {
	_, err := n.awaitLeader(ctx, func(now Member) bool { return now.Name != m.Name })
	return err
}

// awaitLeader waits until a member that satisfies wanted is known to lead, and returns it.
func (n *Node) awaitLeader(ctx context.Context, wanted func(Member) bool) (Member, error) {
	for {
		_, changed := n.currentLeadership()
		if m, ok := n.Leader(); ok && wanted(m) {
			return m, nil
		}
		if _, err := receive(ctx, n, changed); err != nil {
			return Member{}, err
		}
	}
}

// Verify makes sure, by asking a quorum, that this member is the leader and has applied everything
// acknowledged before the call. The machine's state is then current. Concurrent calls share one
// round of requests. Errors: *[NotLeaderError], ErrStopped, the cause of ctx.
func (n *Node) Verify(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case n.verifies <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.stopped:
		return n.stopError()
	}
	answered, err := receive(ctx, n, answer)
	if err != nil {
		return err
	}
	return answered
}

// verifyOnDemand serves calls of Verify. All calls that wait when a round starts share its result;
// later calls wait for the next round.
func (n *Node) verifyOnDemand() {
	answered := make(chan struct{}, 1)
	var waiting []chan error
	asking := false
	for {
		if !asking && len(waiting) > 0 {
			group := waiting
			waiting, asking = nil, true
			n.tasks.Go(func() {
				err := n.askQuorum()
				for _, answer := range group {
					answer <- err
				}
				answered <- struct{}{}
			})
		}
		select {
		case answer := <-n.verifies:
			waiting = append(waiting, answer)
		case <-answered:
			asking = false
		case <-n.stopped:
			return
		}
	}
}

// askQuorum runs one round.
func (n *Node) askQuorum() error {
	r, err := n.ownLeadership()
	if err != nil {
		return err
	}
	select {
	case <-r.ready:
	case <-r.ctx.Done():
		return n.notLeader()
	case <-n.stopped:
		return n.stopError()
	}
	asked := time.Now()
	err = n.wait(r.ctx, n.raft.VerifyLeader())
	if err == nil {
		err = n.untilConfirmed(r.ctx, asked)
	}
	return n.unconfirmed(err)
}

// unconfirmed is the error of a verification that failed because leadership ended: nothing was
// proposed, so nothing is uncertain.
func (n *Node) unconfirmed(err error) error {
	var uncertain *UncertainError
	if errors.Is(err, ErrLeadershipLost) || errors.As(err, &uncertain) {
		return n.notLeader()
	}
	return err
}

// ownLeadership returns this member's leadership. If the library has already elected this member,
// it waits until watchLeadership has noticed.
func (n *Node) ownLeadership() (*leadership, error) {
	for {
		r, changed := n.currentLeadership()
		if r != nil {
			return r, nil
		}
		if !n.IsLeader() {
			return nil, n.notLeader()
		}
		if _, err := receive(context.Background(), n, changed); err != nil {
			return nil, err
		}
	}
}
