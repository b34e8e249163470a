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
	redialAfter = 2 * time.Millisecond  // after a connection broke
	retryAfter  = 50 * time.Millisecond // after a connection could not be made
)

// watchLeader keeps an idle connection to the leader while this member follows. When the leader's
// process ends, the connection breaks and the machine refuses a new one. This member then stands
// for election at once; Config.Heartbeat only has to cover machines and networks that fail
// silently.
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

// followUntil watches leader until changed is closed or the node stops; if the leader is gone, it
// stands for election.
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

// untilRefused returns true when m's machine refuses a connection, and false when ctx ends. It also
// returns true when another log answers in place of m's log.
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
		_, _ = c.Read(make([]byte, 1)) // nothing is sent on it, so Read returns when the connection ends
		stop()
		c.Close()
		pause(ctx, redialAfter)
	}
	return false
}

// stand makes this member a candidate, unless a member other than gone becomes leader before its
// turn. Members that notice the loss at the same time take turns by name, so that they do not split
// the votes.
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
	// This works like a handover of leadership: the others vote although they may not have noticed
	// the loss yet.
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

// turn returns how many voters other than gone come before this member, and whether it is a voter.
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
