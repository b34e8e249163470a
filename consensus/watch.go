package consensus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// Pauses of a follower that watches its leader.
const (
	redialAfter = 2 * time.Millisecond  // a connection that broke
	retryAfter  = 50 * time.Millisecond // a connection that could not be made
)

// watchLeader keeps an idle connection to the leader while this member follows. A leader whose
// process has ended breaks it, and its machine then refuses another. This member stands for
// election at once: the silence that raft waits for (Config.Heartbeat) is for machines and networks
// that say nothing when they fail.
func (n *Node) watchLeader() {
	for {
		_, changed := n.currentLeadership()
		leader, known := n.Leader()
		if known && leader.Name != n.cfg.Name {
			n.followUntil(changed, leader)
		}
		if _, err := receive(context.Background(), n, changed); err != nil {
			return
		}
	}
}

// followUntil watches leader until changed is closed or the node stops, and stands for election if
// the leader is gone.
func (n *Node) followUntil(changed <-chan struct{}, leader Member) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.tasks.Go(func() {
		defer cancel()
		_, _ = receive(ctx, n, changed)
	})
	if !n.untilRefused(ctx, leader) {
		return
	}
	n.log.Info("the leader's process has ended", "leader", leader.Name)
	n.stand(leader)
}

// untilRefused returns true when the machine of m says that nothing listens at its address, and
// false when ctx ends. It is true too when another log answers in its place.
func (n *Node) untilRefused(ctx context.Context, m Member) bool {
	target := n.trans.at(m.serverID(), raft.ServerAddress(m.Addr))
	for ctx.Err() == nil {
		c, err := n.stream.Dial(target, n.cfg.Heartbeat)
		if other := new(otherLogError); errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &other) {
			return ctx.Err() == nil
		}
		if err != nil {
			pause(ctx, retryAfter)
			continue
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		_, _ = c.Read(make([]byte, 1)) // nothing is sent on it: it returns when the connection ends
		stop()
		c.Close()
		pause(ctx, redialAfter)
	}
	return false
}

// stand makes this member a candidate, unless another member than gone leads before its turn.
// Members that notice the same take turns by name, so that they do not share the votes.
func (n *Node) stand(gone Member) {
	turn, votes := n.turn(gone)
	if !votes {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(turn)*n.cfg.Heartbeat/3)
	defer cancel()
	if n.UntilOther(ctx, gone) == nil || n.isStoppingNow() {
		return
	}
	// As if the leader had handed its leadership on: the others vote, although they may not have
	// noticed yet that it is gone.
	self := n.Self().serverID()
	err := n.trans.TimeoutNow(self, raft.ServerAddress(n.stream.addr), &raft.TimeoutNowRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self), Addr: []byte(n.stream.addr),
		},
	}, &raft.TimeoutNowResponse{})
	if err != nil {
		n.log.Warn("this member cannot stand for election at once", "error", err)
	}
}

// turn is how many voters other than gone go before this member, if it is a voter itself.
func (n *Node) turn(gone Member) (int, bool) {
	others := slices.DeleteFunc(n.Members(), func(m Member) bool { return m.Name == gone.Name })
	slices.SortFunc(others, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	i := slices.IndexFunc(others, func(m Member) bool { return m.Name == n.cfg.Name })
	return i, i >= 0
}

func (n *Node) isStoppingNow() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isStopping
}
