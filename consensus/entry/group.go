// Package entry is the content of the log's entries: groups of proposals with a checksum. A sum over
// all entries before binds each entry to one log.
package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
)

// An entry holds a group of proposals: format byte, CRC-32C of the rest, number of proposals, then
// length and bytes of each. In the second format the rest is compressed with S2. The checksum is
// there because the log file has none over its pages: a flipped bit must stop a member, not make it
// diverge.
const (
	plainFormat      = 1
	compressedFormat = 2
	headerSize       = 1 + crc32.Size

	// compressAbove is the size in bytes above which entries are compressed. Proposals of a busy
	// moment are alike and shrink to a fifth, and the log writes every page of an entry twice.
	compressAbove = 2048

	// mostRest bounds what a damaged length makes a member allocate.
	mostRest = GroupBytesMax + ProposalMax + binary.MaxVarintLen64*(GroupCountMax+1)
)

// Castagnoli is the table of all checksums of the log and beside it.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Why an entry cannot be read.
var (
	ErrDamaged = errors.New("entry is damaged")
	ErrNewer   = errors.New("written by a newer version of rota")
)

// Limits of an entry.
const (
	GroupCountMax = 4096    // proposals in one
	GroupBytesMax = 1 << 20 // bytes of several proposals; a larger one is alone

	// ProposalMax is the most bytes one proposal may have. It bounds what a follower must take in one
	// request.
	ProposalMax = 32 << 20
)

// Packer packs groups into entries. The zero value is ready; what it holds is the memory that the
// last entry needed.
type Packer struct {
	plain, compressed []byte
}

// packerMax is how much memory a Packer keeps.
const packerMax = 4 * GroupBytesMax

// Encode packs proposals into one entry, compressed if that is of use. An entry stays in memory as
// long as a member may ask for it, so it gets as many bytes as it has.
func (k *Packer) Encode(proposals [][]byte) []byte {
	plain := append(k.plain[:0], make([]byte, headerSize)...)
	plain[0] = plainFormat
	plain = binary.AppendUvarint(plain, uint64(len(proposals)))
	for _, p := range proposals {
		plain = binary.AppendUvarint(plain, uint64(len(p)))
		plain = append(plain, p...)
	}
	b := plain
	if len(plain) > compressAbove {
		b = k.compress(plain)
	}
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(b[headerSize:], Castagnoli))
	if k.plain = plain; cap(plain) > packerMax {
		*k = Packer{}
	}
	return b
}

// compress returns an entry in the second format, without its checksum.
func (k *Packer) compress(plain []byte) []byte {
	rest := plain[headerSize:]
	if most := headerSize + s2.MaxEncodedLen(len(rest)); cap(k.compressed) < most {
		k.compressed = make([]byte, most)
	}
	b := k.compressed[:cap(k.compressed)]
	b[0] = compressedFormat
	return b[:headerSize+len(s2.Encode(b[headerSize:], rest))]
}

// Decode unpacks an entry. The proposals share its memory.
func Decode(b []byte) ([][]byte, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("%d bytes are too few: %w", len(b), ErrDamaged)
	}
	if b[0] > compressedFormat {
		return nil, fmt.Errorf("entry format %d: %w", b[0], ErrNewer)
	}
	body := b[headerSize:]
	if b[0] < plainFormat || crc32.Checksum(body, Castagnoli) != binary.LittleEndian.Uint32(b[1:]) {
		return nil, fmt.Errorf("checksum does not match: %w", ErrDamaged)
	}
	if b[0] == compressedFormat {
		size, err := s2.DecodedLen(body)
		if err != nil || size > mostRest {
			return nil, fmt.Errorf("length of the compressed part: %w", ErrDamaged)
		}
		if body, err = s2.Decode(nil, body); err != nil {
			return nil, fmt.Errorf("compressed part: %w: %w", err, ErrDamaged)
		}
	}
	count, body, err := cutUvarint(body)
	if err != nil || count > uint64(len(body)) {
		return nil, fmt.Errorf("number of proposals: %w", ErrDamaged)
	}
	return cutProposals(body, int(count))
}

// cutProposals reads count proposals, which must fill body.
func cutProposals(body []byte, count int) ([][]byte, error) {
	proposals := make([][]byte, count)
	for i := range proposals {
		size, rest, err := cutUvarint(body)
		if err != nil || size > uint64(len(rest)) {
			return nil, fmt.Errorf("length of proposal %d: %w", i, ErrDamaged)
		}
		proposals[i], body = rest[:size:size], rest[size:]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("%d bytes after the last proposal: %w", len(body), ErrDamaged)
	}
	return proposals, nil
}

// cutUvarint reads a number from the front of b.
func cutUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, ErrDamaged
	}
	return v, b[n:], nil
}
