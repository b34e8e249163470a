package entry

import (
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"

	"github.com/hashicorp/raft"
)

// Each entry carries a checksum of its own content and of the previous entry's checksum. Two logs
// with the same checksum at one entry therefore have the same entries up to it. The library
// considers entries equal if they have the same index and term. That fails after a disk was rolled
// back: a term is then used a second time, for other entries.

// LinkSize is the size of a link: the part of an entry with its checksum and a flag. The flag marks
// a restarted chain: this member had a snapshot instead of the previous entry.
const LinkSize = 1 + 8

// Chain is the checksum of the last entry of a log. It is not safe for concurrent use.
type Chain struct {
	Index uint64 // index of that entry; 0: the log is empty
	Sum   uint64
	Known bool
}

// ChainAt returns the chain up to an entry; it is unknown if the entry has no link.
func ChainAt(l *raft.Log) Chain {
	if len(l.Extensions) != LinkSize {
		return Chain{}
	}
	return Chain{Index: l.Index, Sum: binary.BigEndian.Uint64(l.Extensions[1:]), Known: true}
}

// next returns the checksum after l, the entry that follows the last one.
func (c Chain) next(l *raft.Log) uint64 {
	b := binary.BigEndian.AppendUint64(nil, c.Sum)
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	if l.Type == raft.LogCommand && len(l.Data) >= headerSize {
		b = append(b, l.Data[:headerSize]...) // the header has a checksum of the rest
	} else {
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(l.Data, Castagnoli))
	}
	sum := fnv.New64a()
	sum.Write(b)
	return sum.Sum64()
}

// Add appends l as the next entry. If this member leads and created l, Add writes its link;
// otherwise Add compares the leader's link. It returns false if the logs differ before l.
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
