package consensus

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// A member that cannot prove that its log is complete does not vote and does not stand for
// election. This probation ends when every other voter has told the member how far it had come, or
// probationMax after the start. The proof is the record outside of the member's directory, which a
// reboot of the machine erases. The other voters know what the member acknowledged to them; a voter
// that is down for long cannot hold up the cluster, because of probationMax.
const (
	probationMax   = 10 * time.Second
	probationRetry = 50 * time.Millisecond
	probationDial  = time.Second // for one try; stopping the node waits for it
)

// onProbation reports whether this member is not allowed to vote or stand for election.
func (n *Node) onProbation() bool { return !n.trusted.Load() }

// endProbation waits until this member may vote.
func (n *Node) endProbation() {
	if n.onProbation() {
		n.log.Info("this controller does not vote until the others have told it how much of its log they have seen, or "+
			"some seconds have passed",
			"at_most", n.cfg.Probation)
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Probation)
	defer cancel()
	for n.onProbation() {
		unmet := n.unmet()
		if len(unmet) == 0 || ctx.Err() != nil {
			n.trusted.Store(true)
			n.log.Info("this controller votes", "unheard", len(unmet))
			return
		}
		for _, m := range unmet {
			n.tasks.Go(func() { n.meet(m) })
		}
		select {
		case <-n.known.news:
		case <-time.After(probationRetry):
		case <-ctx.Done():
		case <-n.stopped:
			return
		}
	}
}

// unmet returns the other voters that have not told this member its progress since its start.
func (n *Node) unmet() []Member {
	var unmet []Member
	for _, m := range n.Members() {
		if m.Name != n.cfg.Name && !n.known.hasMet(m.serverID()) {
			unmet = append(unmet, m)
		}
	}
	return unmet
}

// meet connects to m one time. A pending call to m continues on its own.
func (n *Node) meet(m Member) {
	if _, busy := n.meeting.LoadOrStore(m.serverID(), true); busy {
		return
	}
	defer n.meeting.Delete(m.serverID())
	c, err := n.stream.Dial(n.trans.at(m.serverID(), raft.ServerAddress(m.Addr)), probationDial)
	if err != nil {
		return // the next try, or the end of probation, covers the failure
	}
	c.Close()
}

// refuseVotes refuses vote requests while this member is on probation; it returns true if it
// answered a request.
func refuseVotes(rpc raft.RPC) bool {
	switch rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		rpc.Respond(&raft.RequestVoteResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}, nil)
	case *raft.RequestPreVoteRequest:
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}, nil)
	default:
		return false
	}
	return true
}
