package consensus

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// A member that cannot prove that its log is whole gives no vote and asks for none. That ends when
// every other voter has told it how far it had come, or probationMax after its start. Its proof is
// the record outside its directory, which a machine that was booted has lost. The others know what
// it acknowledged to them; a voter that is down for longer than probationMax does not hold the
// cluster up.
const (
	probationMax   = 10 * time.Second
	probationRetry = 50 * time.Millisecond
	probationDial  = time.Second // for one try, which the end of the node waits for
)

// onProbation reports whether this member neither votes nor stands for election.
func (n *Node) onProbation() bool { return !n.trusted.Load() }

// endProbation waits until this member may vote.
func (n *Node) endProbation() {
	if n.onProbation() {
		n.log.Info("no votes until the other controllers say how far they have seen this one's log, or for some seconds",
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

// unmet returns the other voters that this member has not met since its start.
func (n *Node) unmet() []Member {
	var unmet []Member
	for _, m := range n.Members() {
		if m.Name != n.cfg.Name && !n.known.hasMet(m.serverID()) {
			unmet = append(unmet, m)
		}
	}
	return unmet
}

// meet connects to m once. A call that is on its way to m already goes on alone.
func (n *Node) meet(m Member) {
	if _, busy := n.meeting.LoadOrStore(m.serverID(), true); busy {
		return
	}
	defer n.meeting.Delete(m.serverID())
	c, err := n.stream.Dial(n.trans.at(m.serverID(), raft.ServerAddress(m.Addr)), probationDial)
	if err != nil {
		return // the next try, or the end of probation
	}
	c.Close()
}

// refuseVotes answers a request for a vote of a member on probation, and reports whether it was one.
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
