package consensus

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/hashicorp/raft"

	"github.com/rota-hpc/rota/consensus/entry"
)

// chainAt returns the hash chain up to an entry of the log.
func (g *guard) chainAt(index uint64) entry.Chain {
	if index == 0 {
		return entry.Chain{Known: true}
	}
	var l raft.Log
	if g.GetLog(index, &l) != nil {
		return entry.Chain{} // only a snapshot has the entry
	}
	return entry.ChainAt(&l)
}

// link adds new entries to the hash chain; it ends this goroutine if they do not continue the log.
func (g *guard) link(logs []*raft.Log) {
	for _, l := range logs {
		if !g.chain.Add(l) {
			g.differs(l)
			g.kill()
			runtime.Goexit()
		}
	}
}

// sameEntries compares the new entries with the entries that the log already has at the same
// indexes. It returns the first entry that differs.
func (g *guard) sameEntries(logs []*raft.Log) (*raft.Log, bool) {
	for _, l := range logs {
		var own raft.Log
		if l.Index > g.promises.now().Last || g.store.GetLog(l.Index, &own) != nil {
			return nil, true
		}
		if own.Term == l.Term && !bytes.Equal(own.Extensions, l.Extensions) {
			return l, false
		}
	}
	return nil, true
}

// differs stops this member because the leader's log has other entries before l.
func (n *Node) differs(l *raft.Log) {
	leader, _ := n.Leader()
	n.refuse(&LogError{Dir: n.cfg.Dir, Kind: ErrDiverged, Text: fmt.Sprintf("entry %d of term %d from leader %s "+
		"contradicts the log here: the terms of the earlier entries agree, but their contents do not", l.Index, l.Term,
		leader.Name)})
}
