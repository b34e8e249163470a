package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/peers"
)

// Pauses between rounds of addControllers.
const (
	addEvery   = 5 * time.Second        // a controller that could not be added is tried again
	learnEvery = 200 * time.Millisecond // while one catches up
)

// addControllers makes controllers voters that gossip knows and the log does not. A voter that
// cannot do its part is worse than none, since a majority then needs one more of the others. So
// each is contacted before it is added, and gets its vote once it has the leader's log. A voter
// that has lost its log begins again in the same way.
func (l *Leader) addControllers(ctx context.Context) error {
	for {
		l.addOnce(ctx)
		wait := addEvery
		if len(l.Replica.Learners()) > 0 {
			wait = learnEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Peers.Changed():
		case <-time.After(wait):
		}
	}
}

func (l *Leader) addOnce(ctx context.Context) {
	if voters, self := l.Replica.Members(), l.Replica.Self(); len(voters) == 1 && voters[0].Name == self.Name &&
		voters[0].Log == self.Log && voters[0].Addr != self.Addr {
		if err := l.Replica.AddVoter(ctx, self); err != nil && ctx.Err() == nil { // a cluster of one, made elsewhere
			l.Log.Warn("this controller's address is not in the log", "raft", self.Addr, "error", err)
		}
	}
	for _, p := range l.Peers.All() {
		if err := l.admit(ctx, p); err != nil && ctx.Err() == nil {
			l.Log.Warn("controller not added", "controller", p.Name, "error", err)
		}
	}
}

// admit takes a controller one step closer to a vote, if it has none with the log that it has now.
func (l *Leader) admit(ctx context.Context, p member.Peer) error {
	voters, learners := l.Replica.Members(), l.Replica.Learners()
	named := func(m consensus.Member) bool { return m.Name == p.Name }
	if i := slices.IndexFunc(voters, named); i >= 0 {
		return l.keepVoter(ctx, p, voters[i])
	}
	enough := l.Replica.Applied()
	s, err := l.meet(ctx, p)
	if err != nil {
		return err
	}
	as := consensus.Member{Name: p.Name, Addr: p.Raft, Log: s.Log}
	i := slices.IndexFunc(learners, named)
	switch {
	case i >= 0 && learners[i].Log != s.Log:
		return l.Replica.Remove(ctx, p.Name)
	case i >= 0 && learners[i] == as && s.Applied < enough:
		return nil // it catches up
	case i >= 0 && learners[i] == as:
		if err := l.Replica.AddVoter(ctx, as); err != nil {
			return err
		}
		l.Log.Info("controller added", "controller", p.Name, "raft", p.Raft, "log", s.Log)
		return nil
	case i < 0 && len(voters)+len(learners) >= peers.MaxControllers:
		return errors.New("a cluster has at most five")
	}
	l.Log.Info("controller catches up", "controller", p.Name, "raft", p.Raft, "log", s.Log)
	return l.Replica.AddLearner(ctx, as)
}

// keepVoter writes a voter's new address into the log, and takes the vote from one whose log is lost.
func (l *Leader) keepVoter(ctx context.Context, p member.Peer, m consensus.Member) error {
	_, lost := l.Replica.LostItsLog(m)
	if m.Addr == p.Raft && !lost {
		return nil
	}
	s, err := l.meet(ctx, p)
	if err != nil {
		return err
	}
	if s.Log == m.Log {
		m.Addr = p.Raft
		return l.Replica.AddVoter(ctx, m)
	}
	l.Log.Warn("a controller has lost its log: it has no vote until it has caught up", "controller", p.Name, "lost", m.Log,
		"log", s.Log)
	return l.Replica.Remove(ctx, m.Name)
}

// meet asks a controller for its state, and returns an error if it cannot be a voter of this cluster.
func (l *Leader) meet(ctx context.Context, p member.Peer) (peers.State, error) {
	s, err := l.Peers.Meet(ctx, p)
	if err != nil {
		return s, err
	}
	if version := l.Replica.View().Config().Version; s.Knows < version {
		return s, fmt.Errorf("it supports cluster versions up to %d, but this cluster has %d: install the version that the "+
			"other controllers run",
			s.Knows, version)
	}
	if ours := l.Replica.View().Recovery().Generation.String(); s.HasState && cmp.Or(s.Generation, "0") != ours {
		return s, fmt.Errorf("its log has cluster generation %s, but the cluster has %s since a recovery or a restore. "+
			"Stop it, move its data directory away and join again with a new token", cmp.Or(s.Generation, "0"),
			ours)
	}
	if s.HasState && isForeign(p.Name, s, l.Replica.Members(), l.Replica.Learners()) {
		return s, errors.New("it has the log of another cluster: move its data directory away and join this cluster with a " +
			"new token")
	}
	return s, nil
}

// isForeign reports whether a controller has the log of another cluster: none of the voters that it knows votes
// here. A learner is not foreign: while it catches up, it knows voters of long ago, which may all have been
// replaced since.
func isForeign(name string, s peers.State, voters, learners []consensus.Member) bool {
	same := func(list []consensus.Member, name, log string) bool {
		return slices.ContainsFunc(list, func(m consensus.Member) bool { return m.Name == name && m.Log == log })
	}
	if len(s.Voters) == 0 || same(learners, name, s.Log) {
		return false
	}
	return !slices.ContainsFunc(s.Voters, func(v consensus.Member) bool { return same(voters, v.Name, v.Log) })
}
