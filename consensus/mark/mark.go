// Package mark describes how far a member of the cluster has come, and stores that in a record of
// fixed size.
package mark

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/rota-hpc/rota/consensus/entry"
)

// Mark is how far a member has come. It only grows while the member keeps its log. A smaller mark
// proves that the log is an older copy, so that the member has forgotten votes or entries.
type Mark struct {
	Term     uint64 `json:"term,omitempty"`       // newest term that the member has entered
	Vote     uint64 `json:"vote,omitempty"`       // last term in which the member has voted
	LastTerm uint64 `json:"last_term,omitempty"`  // term of the last entry that the member has stored
	Last     uint64 `json:"last_index,omitempty"` // index of that entry
}

// Covers reports whether a member at m can have been at o earlier.
func (m Mark) Covers(o Mark) bool {
	return m.Term >= o.Term && m.Vote >= o.Vote && !before(m.LastTerm, m.Last, o.LastTerm, o.Last)
}

// Raised returns the smallest mark that covers m and o.
func (m Mark) Raised(o Mark) Mark {
	m.Term, m.Vote = max(m.Term, o.Term), max(m.Vote, o.Vote)
	if before(m.LastTerm, m.Last, o.LastTerm, o.Last) {
		m.LastTerm, m.Last = o.LastTerm, o.Last
	}
	return m
}

// before compares ends of logs as elections do.
func before(termA, indexA, termB, indexB uint64) bool {
	return termA < termB || termA == termB && indexA < indexB
}

// String implements fmt.Stringer, for logs and errors.
func (m Mark) String() string {
	return fmt.Sprintf("entry %d of term %d, term %d, vote in term %d", m.Last, m.LastTerm, m.Term, m.Vote)
}

// RecordSize is the size of a record in bytes: the log's id, five numbers, a checksum.
const RecordSize = idSize + 5*8 + crc32.Size

const idSize = 16

// Record encodes a mark m of a log, with the last entry that is known to be committed.
func (m Mark) Record(log string, committed uint64) []byte {
	b := append(make([]byte, 0, RecordSize), log...)
	for _, v := range []uint64{m.Term, m.Vote, m.LastTerm, m.Last, committed} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, entry.Castagnoli))
}

// Read decodes a record. It returns false if the record is damaged or belongs to another log.
func Read(b []byte, log string) (m Mark, committed uint64, ok bool) {
	if len(b) != RecordSize || string(b[:idSize]) != log ||
		binary.BigEndian.Uint32(b[RecordSize-crc32.Size:]) != crc32.Checksum(b[:RecordSize-crc32.Size], entry.Castagnoli) {
		return Mark{}, 0, false
	}
	number := func(i int) uint64 { return binary.BigEndian.Uint64(b[idSize+8*i:]) }
	return Mark{Term: number(0), Vote: number(1), LastTerm: number(2), Last: number(3)}, number(4), true
}
