package entry

import (
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"

	"github.com/hashicorp/raft"
)

// Each entry carries a sum of its own content and of the sum before it. So two logs with the same
// sum at one entry have the same entries up to it. The library takes entries for the same if they
// have the same index and term. That is so until disks are rolled back: then a term that was used
// is used again, for other entries.

// LinkSize is that of a link: the part of an entry with its sum, and a flag. The flag says that the sum begins anew
// here, because this member had a snapshot and not the entry before.
const LinkSize = 1 + 8

// Chain is the sum of the last entry of a log. It is not safe for concurrent use.
type Chain struct {
	Index uint64 // of that entry; 0: the log is empty
	Sum   uint64
	Known bool
}

// ChainAt returns the chain up to an entry, which is not known if the entry has no link.
func ChainAt(l *raft.Log) Chain {
	if len(l.Extensions) != LinkSize {
		return Chain{}
	}
	return Chain{Index: l.Index, Sum: binary.BigEndian.Uint64(l.Extensions[1:]), Known: true}
}

// next returns the sum with l, the entry behind the last one.
func (c Chain) next(l *raft.Log) uint64 {
	b := binary.BigEndian.AppendUint64(nil, c.Sum)
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	if l.Type == raft.LogCommand && len(l.Data) >= headerSize {
		b = append(b, l.Data[:headerSize]...) // has a checksum of the rest
	} else {
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(l.Data, Castagnoli))
	}
	sum := fnv.New64a()
	sum.Write(b)
	return sum.Sum64()
}

// Add takes l as the next entry. A leader that has made l gives it its link; for other entries Add
// compares the leader's link. It reports false if the logs differ before l.
func (c *Chain) Add(l *raft.Log) bool {
	follows := c.Known && l.Index == c.Index+1
	if !follows {
		*c = Chain{}
	}
	if len(l.Extensions) != LinkSize {
		l.Extensions = binary.BigEndian.AppendUint64([]byte{0}, c.next(l))
		if !follows {
			l.Extensions[0] = 1
		}
	}
	sum := binary.BigEndian.Uint64(l.Extensions[1:])
	if follows && l.Extensions[0] == 0 && sum != c.next(l) {
		return false
	}
	*c = Chain{Index: l.Index, Sum: sum, Known: true}
	return true
}
