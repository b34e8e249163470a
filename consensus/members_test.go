package consensus

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/entry"
)

// counting is a machine without a state.
type counting struct{}

func (counting) Apply(_ uint64, proposals [][]byte) []any { return make([]any, len(proposals)) }
func (counting) Snapshot() (func(io.Writer) error, error) {
	return func(io.Writer) error { return nil }, nil
}
func (counting) Restore(io.Reader) error { return nil }

// alone returns a member that leads itself and has applied some entries.
func alone(t *testing.T) *Node {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "n1", filepath.Join(t.TempDir(), "raft"), "127.0.0.1:0"
	n, err := Open(cfg, counting{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Shutdown() })
	if err := n.Bootstrap([]Member{n.Self()}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := n.Propose(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// A leader's snapshot that is older than the state, and entries that are others under the same term,
// stop a member; what an earlier leader sends, and what it has already, do not.
func TestWhichLogOfALeaderIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		ask     func(n *Node, own *raft.Log) any
		refused bool
	}{
		"a snapshot of now": {func(n *Node, _ *raft.Log) any {
			return &raft.InstallSnapshotRequest{Term: n.Term(), LastLogIndex: n.Applied()}
		}, false},
		"an older snapshot": {func(n *Node, _ *raft.Log) any {
			return &raft.InstallSnapshotRequest{Term: n.Term(), LastLogIndex: n.Applied() - 1}
		}, true},
		"an older snapshot of an earlier leader": {func(n *Node, _ *raft.Log) any {
			return &raft.InstallSnapshotRequest{Term: n.Term() - 1, LastLogIndex: n.Applied() - 1}
		}, false},
		"the same entry": {func(n *Node, own *raft.Log) any {
			return &raft.AppendEntriesRequest{Term: n.Term(), Entries: []*raft.Log{own}}
		}, false},
		"another entry": {func(n *Node, own *raft.Log) any {
			own.Extensions = make([]byte, entry.LinkSize)
			return &raft.AppendEntriesRequest{Term: n.Term(), Entries: []*raft.Log{own}}
		}, true},
		"another entry of an earlier leader": {func(n *Node, own *raft.Log) any {
			own.Extensions = make([]byte, entry.LinkSize)
			return &raft.AppendEntriesRequest{Term: n.Term() - 1, Entries: []*raft.Log{own}}
		}, false},
		"an entry of a later term": {func(n *Node, own *raft.Log) any {
			own.Term, own.Extensions = own.Term+1, make([]byte, entry.LinkSize)
			return &raft.AppendEntriesRequest{Term: n.Term() + 1, Entries: []*raft.Log{own}}
		}, false},
		"a vote": {func(n *Node, _ *raft.Log) any { return &raft.RequestVoteRequest{Term: n.Term()} }, false},
	} {
		n := alone(t)
		var own raft.Log
		if err := n.guard.GetLog(n.Applied(), &own); err != nil {
			t.Fatal(err)
		}
		answers := make(chan raft.RPCResponse, 1)
		if got := n.refuseLog(raft.RPC{Command: test.ask(n, &own), RespChan: answers}); got != test.refused {
			t.Errorf("%s: refused %t", name, got)
		}
		if fatal := n.fatalError(); test.refused != errors.Is(fatal, ErrDiverged) || test.refused != (len(answers) == 1) {
			t.Errorf("%s: %v, %d answers", name, fatal, len(answers))
		}
	}
}
