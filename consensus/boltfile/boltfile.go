// Package boltfile says whether the file of a bolt database is whole, before bolt maps it.
package boltfile

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// Layout of a bolt file: two meta pages, each with a page header before it, written in turn. A torn
// write damages one of them and leaves the transaction before; the log then ends one commit
// earlier, which was never acknowledged.
const (
	magic          = 0xED0CDAED
	version        = 2
	pageHeaderSize = 16
	metaSize       = 64
	maxPageSize    = 1 << 16
)

// meta is the part of a meta page that Check needs.
type meta struct {
	pageSize, pages, txid uint64
}

// DamageError says how a file is not whole.
type DamageError string

// Error implements error.
func (e DamageError) Error() string { return string(e) }

// Check compares the size of a file with what its newest valid meta page says. Bolt itself would map
// the file and fault later, in the middle of work. Its error is a [DamageError], or the error of the disk.
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
		return DamageError("neither of its two headers is whole")
	}
	if need := int64(m.pages * m.pageSize); info.Size() < need {
		return DamageError(fmt.Sprintf("cut short: %d bytes of %d", info.Size(), need))
	}
	return nil
}

// newestMeta returns the valid meta page of the later transaction. The second page's place depends
// on the page size, which only the first one tells; if that is damaged, every size is tried.
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

// readMeta reads the meta page at offset and checks its sum.
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
