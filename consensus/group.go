package consensus

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
	groupPlain      = 1
	groupCompressed = 2
	groupHeader     = 1 + crc32.Size

	// compressAbove is the size in bytes above which entries are compressed. Proposals of a busy
	// moment are alike and shrink to a fifth, and the log writes every page of an entry twice.
	compressAbove = 2048

	// groupRestMax bounds what a damaged length makes a member allocate.
	groupRestMax = groupBytesMax + ProposalMax + binary.MaxVarintLen64*(groupCountMax+1)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errGroup is why an entry cannot be read.
var errGroup = errors.New("entry is damaged")

// packer packs groups into entries. The zero value is ready; what it holds is the memory that the
// last entry needed.
type packer struct {
	plain, compressed []byte
}

// packerMax is how much memory a packer keeps.
const packerMax = 4 * groupBytesMax

// encode packs proposals into one entry, compressed if that is of use. An entry stays in memory as
// long as a member may ask for it, so it gets as many bytes as it has.
func (k *packer) encode(proposals [][]byte) []byte {
	plain := append(k.plain[:0], make([]byte, groupHeader)...)
	plain[0] = groupPlain
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
	binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(b[groupHeader:], castagnoli))
	if k.plain = plain; cap(plain) > packerMax {
		*k = packer{}
	}
	return b
}

// compress returns an entry in the second format, without its checksum.
func (k *packer) compress(plain []byte) []byte {
	rest := plain[groupHeader:]
	if most := groupHeader + s2.MaxEncodedLen(len(rest)); cap(k.compressed) < most {
		k.compressed = make([]byte, most)
	}
	b := k.compressed[:cap(k.compressed)]
	b[0] = groupCompressed
	return b[:groupHeader+len(s2.Encode(b[groupHeader:], rest))]
}

// decodeGroup unpacks an entry. The proposals share its memory.
func decodeGroup(b []byte) ([][]byte, error) {
	if len(b) < groupHeader {
		return nil, fmt.Errorf("%d bytes are too few: %w", len(b), errGroup)
	}
	if b[0] > groupCompressed {
		return nil, fmt.Errorf("entry format %d: %w", b[0], ErrNewer)
	}
	body := b[groupHeader:]
	if b[0] < groupPlain || crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[1:]) {
		return nil, fmt.Errorf("checksum does not match: %w", errGroup)
	}
	if b[0] == groupCompressed {
		size, err := s2.DecodedLen(body)
		if err != nil || size > groupRestMax {
			return nil, fmt.Errorf("length of the compressed part: %w", errGroup)
		}
		if body, err = s2.Decode(nil, body); err != nil {
			return nil, fmt.Errorf("compressed part: %w: %w", err, errGroup)
		}
	}
	count, body, err := cutUvarint(body)
	if err != nil || count > uint64(len(body)) {
		return nil, fmt.Errorf("number of proposals: %w", errGroup)
	}
	return cutProposals(body, int(count))
}

// cutProposals reads count proposals, which must fill body.
func cutProposals(body []byte, count int) ([][]byte, error) {
	proposals := make([][]byte, count)
	for i := range proposals {
		size, rest, err := cutUvarint(body)
		if err != nil || size > uint64(len(rest)) {
			return nil, fmt.Errorf("length of proposal %d: %w", i, errGroup)
		}
		proposals[i], body = rest[:size:size], rest[size:]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("%d bytes after the last proposal: %w", len(body), errGroup)
	}
	return proposals, nil
}

// cutUvarint reads a number from the front of b.
func cutUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errGroup
	}
	return v, b[n:], nil
}
