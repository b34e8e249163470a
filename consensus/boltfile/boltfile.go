// Package boltfile checks that the file of a bolt database is complete before bolt maps it.
package boltfile

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// Layout of a bolt file: two meta pages, written in turn, each after a page header. A torn write
// damages one of them, and the other has the previous transaction. The log then ends one commit
// earlier; that commit was never acknowledged.
const (
	magic          = 0xED0CDAED
	version        = 2
	pageHeaderSize = 16
	metaSize       = 64
	maxPageSize    = 1 << 16
)

// meta is the part of a meta page that Check reads.
type meta struct {
	pageSize, pages, txid uint64
}

// DamageError describes how a file is damaged.
type DamageError string

// Error implements error.
func (e DamageError) Error() string { return string(e) }

// Check compares the size of a file with the size in its newest valid meta page. Bolt itself would
// map a short file and crash later in the middle of its work. The error is a [DamageError], or the
// disk's error.
func Check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, ok := newestMeta(f)
	if !ok {
		return DamageError("both of its headers are damaged")
	}
	if need := int64(m.pages * m.pageSize); info.Size() < need {
		return DamageError(fmt.Sprintf("cut short: %d bytes of %d", info.Size(), need))
	}
	return nil
}

// newestMeta returns the valid meta page with the later transaction. The second page's offset
// depends on the page size in the first page; if the first page is damaged, newestMeta tries every
// size.
func newestMeta(r io.ReaderAt) (meta, bool) {
	best, found := readMeta(r, 0)
	for size := int64(512); size <= maxPageSize; size *= 2 {
		if found && size != int64(best.pageSize) {
			continue
		}
		if m, ok := readMeta(r, size); ok && int64(m.pageSize) == size && (!found || m.txid > best.txid) {
			return m, true
		}
	}
	return best, found
}

// readMeta reads the meta page at offset and verifies its checksum.
func readMeta(r io.ReaderAt, offset int64) (meta, bool) {
	b := make([]byte, metaSize)
	if _, err := r.ReadAt(b, offset+pageHeaderSize); err != nil {
		return meta{}, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	le := binary.LittleEndian
	if le.Uint32(b) != magic || le.Uint32(b[4:]) != version || le.Uint64(b[metaSize-8:]) != sum.Sum64() {
		return meta{}, false
	}
	return meta{pageSize: uint64(le.Uint32(b[8:])), pages: le.Uint64(b[40:]), txid: le.Uint64(b[48:])}, true
}
