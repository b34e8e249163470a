package consensus

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"runtime"

	"github.com/hashicorp/raft"
)

// Each entry carries a sum of its own content and of the sum before it. So two logs with the same
// sum at one entry have the same entries up to it. The library takes entries for the same if they
// have the same index and term. That is so until disks are rolled back: then a term that was used
// is used again, for other entries.

// A link is the part of an entry with its sum, and a flag. The flag says that the sum begins anew
// here, because this member had a snapshot and not the entry before.
const linkSize = 1 + 8

// chain is the sum of the last entry of the log. Only the library's main goroutine uses it.
type chain struct {
	index uint64 // of that entry; 0: the log is empty
	sum   uint64
	known bool
}

// next returns the sum with l, the entry behind the last one.
func (c chain) next(l *raft.Log) uint64 {
	b := binary.BigEndian.AppendUint64(nil, c.sum)
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	if l.Type == raft.LogCommand && len(l.Data) >= groupHeader {
		b = append(b, l.Data[:groupHeader]...) // has a checksum of the rest
	} else {
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(l.Data, castagnoli))
	}
	sum := fnv.New64a()
	sum.Write(b)
	return sum.Sum64()
}

// add takes l as the next entry. A leader that has made l gives it its link; for other entries add
// compares the leader's link. It reports false if the logs differ before l.
func (c *chain) add(l *raft.Log) bool {
	follows := c.known && l.Index == c.index+1
	if !follows {
		*c = chain{}
	}
	if len(l.Extensions) != linkSize {
		l.Extensions = binary.BigEndian.AppendUint64([]byte{0}, c.next(l))
		if !follows {
			l.Extensions[0] = 1
		}
	}
	sum := binary.BigEndian.Uint64(l.Extensions[1:])
	if follows && l.Extensions[0] == 0 && sum != c.next(l) {
		return false
	}
	*c = chain{index: l.Index, sum: sum, known: true}
	return true
}

// chainAt returns the chain up to an entry of the log.
func (g *guard) chainAt(index uint64) chain {
	if index == 0 {
		return chain{known: true}
	}
	var l raft.Log
	if g.GetLog(index, &l) != nil || len(l.Extensions) != linkSize {
		return chain{} // it is in the snapshot only
	}
	return chain{index: index, sum: binary.BigEndian.Uint64(l.Extensions[1:]), known: true}
}

// link links new entries to the log, and ends this goroutine if they do not belong behind it.
func (g *guard) link(logs []*raft.Log) {
	for _, l := range logs {
		if !g.chain.add(l) {
			g.differs(l)
			g.kill()
			runtime.Goexit()
		}
	}
}

// sameEntries reports whether those of the entries that the log has already are the same here. It
// returns the first that is not.
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
	n.refuse(&LogError{Dir: n.cfg.Dir, Kind: ErrDiverged, Text: fmt.Sprintf("entry %d of term %d from the leader %s does "+
		"not belong behind the entries here, although the entries before it have the same terms there", l.Index, l.Term,
		leader.Name)})
}
