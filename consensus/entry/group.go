// Package entry encodes the content of the log's entries: groups of proposals with a checksum. A
// second checksum over all earlier entries ties each entry to one log.
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
// length and bytes of each. In the second format the rest is compressed with S2. The log file has
// no checksums for its pages, so the entry needs one: a flipped bit must stop a member instead of
// making it diverge.
const (
	plainFormat      = 1
	compressedFormat = 2
	headerSize       = 1 + crc32.Size

	// compressAbove is the size in bytes above which entries are compressed. Proposals of a busy
	// moment are similar and shrink to a fifth; the log writes every page of an entry twice.
	compressAbove = 2048

	// mostRest bounds how much memory a damaged length can make a member allocate.
	mostRest = GroupBytesMax + ProposalMax + binary.MaxVarintLen64*(GroupCountMax+1)
)

// Castagnoli is the CRC table for all checksums of the log and of the files beside it.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Reasons why an entry cannot be read.
var (
	ErrDamaged = errors.New("entry is damaged")
	ErrNewer   = errors.New("written by a newer version of rota")
)

// Limits of an entry.
const (
	GroupCountMax = 4096    // proposals in one entry
	GroupBytesMax = 1 << 20 // bytes of a group; a larger proposal gets its own entry

	// ProposalMax is the largest size of a proposal in bytes. It bounds the size of a request to a
	// follower.
	ProposalMax = 32 << 20
)

// Packer encodes groups into entries. The zero value is ready to use; a Packer reuses the memory of
// earlier entries.
type Packer struct {
	plain, compressed []byte
}

// packerMax bounds the memory that a Packer keeps.
const packerMax = 4 * GroupBytesMax

// Encode packs proposals into one entry, compressed if that makes it smaller. Members keep an entry
// in memory for a long time, so its slice has no spare capacity.
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

// Decode unpacks an entry. The proposals share the entry's memory.
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

// cutProposals splits body into count proposals, which must fill it.
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

// cutUvarint reads a number from the start of b.
func cutUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, ErrDamaged
	}
	return v, b[n:], nil
}
