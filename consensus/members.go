package consensus

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/mark"
)

// Members returns the voters in the newest configuration that this member has.
func (n *Node) Members() []Member { return n.members(raft.Voter) }

// Learners returns the members that get all entries but have no vote yet.
func (n *Node) Learners() []Member { return n.members(raft.Nonvoter) }

func (n *Node) members(as raft.ServerSuffrage) []Member {
	var members []Member
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == as {
			members = append(members, memberOf(s.ID, s.Address))
		}
	}
	return members
}

// LostItsLog reports whether another log answers in place of m's log, as far as this member has
// tried. The returned id belongs to the other log.
func (n *Node) LostItsLog(m Member) (log string, lost bool) { return n.known.otherLog(m) }

// AddVoter adds m as a voter, or changes its address. Only the leader can do it. It fails with
// ErrNameTaken while the cluster has a member of this name with another log.
func (n *Node) AddVoter(ctx context.Context, m Member) error {
	return n.add(ctx, m, func() raft.Future { return n.raft.AddVoter(m.serverID(), raft.ServerAddress(m.Addr), 0, 0) })
}

// AddLearner adds m without a vote, or changes a learner's address; it fails like AddVoter. After
// the learner has applied all entries, AddVoter gives it a vote.
func (n *Node) AddLearner(ctx context.Context, m Member) error {
	return n.add(ctx, m, func() raft.Future {
		return n.raft.AddNonvoter(m.serverID(), raft.ServerAddress(m.Addr), 0, 0)
	})
}

func (n *Node) add(ctx context.Context, m Member, add func() raft.Future) error {
	if m.Log == "" {
		return fmt.Errorf("add member %s: its log is unknown", m.Name)
	}
	for _, other := range slices.Concat(n.Members(), n.Learners()) {
		if other.Name == m.Name && other.Log != m.Log {
			return fmt.Errorf("add member %s: %w: remove it first", m.Name, ErrNameTaken)
		}
	}
	if err := n.wait(ctx, add()); err != nil {
		return fmt.Errorf("add member %s: %w", m.Name, err)
	}
	return nil
}

// Remove removes the member with this name, whichever log it has. Only the leader can do it.
func (n *Node) Remove(ctx context.Context, name string) error {
	for _, m := range slices.Concat(n.Members(), n.Learners()) {
		if m.Name != name {
			continue
		}
		if err := n.wait(ctx, n.raft.RemoveServer(m.serverID(), 0, 0)); err != nil {
			return fmt.Errorf("remove member %s: %w", name, err)
		}
	}
	return nil
}

// behind stops this member if it has forgotten something that a peer has seen it store.
func (n *Node) behind(peer raft.ServerID, seen mark.Mark) error {
	own := n.dir.promises.now()
	if own.Covers(seen) {
		return nil
	}
	e := &LogError{Dir: n.cfg.Dir, Kind: ErrRolledBack, Text: fmt.Sprintf("%s has seen it at %s, but now it is at %s",
		memberOf(peer, "").Name, seen, own)}
	n.refuse(e)
	return e
}

// beyond stops this member because the leader wants to replace committed entries.
func (n *Node) beyond(first uint64) {
	leader, _ := n.Leader()
	n.refuse(&LogError{Dir: n.cfg.Dir, Kind: ErrDiverged, Text: fmt.Sprintf("entries up to %d are committed here, but "+
		"leader %s of term %d has different ones from entry %d on", max(n.Applied(), n.dir.promises.lastCommit()),
		leader.Name,
		n.Term(), first)})
}

// refuseLog stops this member, and returns true, if the leader sends a log that contradicts this
// one. Such a log is a snapshot older than the state, or has different entries under the same
// terms.
func (n *Node) refuseLog(rpc raft.RPC) bool {
	switch c := rpc.Command.(type) {
	case *raft.InstallSnapshotRequest:
		if c.Term < n.Term() || c.LastLogIndex >= n.Applied() {
			return false
		}
		n.beyond(c.LastLogIndex + 1)
	case *raft.AppendEntriesRequest:
		l, same := n.guard.sameEntries(c.Entries)
		if same || c.Term < n.Term() {
			return false
		}
		n.differs(l)
	default:
		return false
	}
	rpc.Respond(nil, n.stopError())
	return true
}

// refuse stops this member, and prevents later starts with this log.
func (n *Node) refuse(e *LogError) {
	if n.guard.dead.Load() {
		return
	}
	if err := markRefused(e); err != nil {
		n.log.Error("cannot record that this log must not be used: the next start would use it", "file",
			filepath.Join(e.Dir, refusedFile), "error", err)
	}
	n.stop(e)
}

// otherTiming warns one time about a member with other timeouts, whose elections would end healthy
// leaderships.
func (n *Node) otherTiming(peer raft.ServerID, timing string) {
	if was, _ := n.timings.Swap(peer, timing); was != timing {
		n.log.Warn("another controller has different timeouts: set the same timeouts on all controllers", "controller",
			memberOf(peer, "").Name, "there", timing, "here", n.cfg.timing())
	}
}
