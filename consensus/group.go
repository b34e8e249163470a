package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// An entry holds a group of proposals: format byte, CRC-32C of the rest, number of proposals, then length and bytes of each. The
// checksum is there because the log file has none over its pages: a flipped bit must stop a member, not make it diverge.
const (
	groupFormat = 1
	groupHeader = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errGroup is why an entry cannot be read.
var errGroup = errors.New("entry is damaged")

// encodeGroup packs proposals into one entry.
func encodeGroup(proposals [][]byte) []byte {
	size := groupHeader + binary.MaxVarintLen64
	for _, p := range proposals {
		size += binary.MaxVarintLen64 + len(p)
	}
	b := make([]byte, groupHeader, size)
	b[0] = groupFormat
	b = binary.AppendUvarint(b, uint64(len(proposals)))
	for _, p := range proposals {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(b[groupHeader:], castagnoli))
	return b
}

// decodeGroup unpacks an entry. The proposals share its memory.
func decodeGroup(b []byte) ([][]byte, error) {
	if len(b) < groupHeader {
		return nil, fmt.Errorf("%d bytes are too few: %w", len(b), errGroup)
	}
	if b[0] > groupFormat {
		return nil, fmt.Errorf("entry format %d: %w", b[0], ErrNewer)
	}
	body := b[groupHeader:]
	if b[0] != groupFormat || crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[1:]) {
		return nil, fmt.Errorf("checksum does not match: %w", errGroup)
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
