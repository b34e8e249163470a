package consensus

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// format is the layout of a directory that this version writes and reads.
const format = 1

// version is what the version file says.
type version struct {
	Format int `json:"format"`
}

// checkVersion refuses a directory that a newer version has written, and marks a new one.
func checkVersion(dir string) error {
	path := filepath.Join(dir, versionFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return markVersion(dir)
	}
	if err != nil {
		return fmt.Errorf("state directory %s: %w", dir, err)
	}
	var v version
	if err := json.Unmarshal(text, &v); err != nil || v.Format < 1 {
		return corrupt(path, fmt.Errorf("%q is not a version", bytes.TrimSpace(text)))
	}
	if v.Format > format {
		return fmt.Errorf("state directory %s: %w: it has format %d and this daemon knows up to %d (install the "+
			"newer version again)", dir, ErrNewer, v.Format, format)
	}
	return nil
}

// markVersion writes the version file before anything else is written. A log without one was
// tampered with.
func markVersion(dir string) error {
	path := filepath.Join(dir, versionFile)
	if _, err := os.Stat(filepath.Join(dir, logFile)); err == nil {
		return corrupt(path, errors.New("missing beside a log"))
	}
	text, err := json.Marshal(version{Format: format})
	if err != nil {
		return err
	}
	if err := WriteDurably(path, append(text, '\n')); err != nil {
		return notWritable(dir, err)
	}
	return nil
}

// WriteDurably puts a whole file at path or none. It is on disk, and so is its name, when this returns.
func WriteDurably(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// Layout of a bolt file: two meta pages, each with a page header before it, written in turn. A torn
// write damages one of them and leaves the transaction before; the log then ends one commit
// earlier, which was never acknowledged.
const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	pageHeaderSize = 16
	metaSize       = 64
	maxPageSize    = 1 << 16
)

// boltMeta is the part of a meta page that checkLog needs.
type boltMeta struct {
	pageSize, pages, txid uint64
}

// checkLog compares the size of the log file with what its newest valid meta page says. Bolt itself
// would map the file and fault later, in the middle of work.
func checkLog(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return notWritable(filepath.Dir(path), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("log %s: %w", path, err)
	}
	m, ok := newestMeta(f)
	if !ok {
		return corrupt(path, errors.New("neither of its two headers is whole"))
	}
	if need := int64(m.pages * m.pageSize); info.Size() < need {
		return corrupt(path, fmt.Errorf("cut short: %d bytes of %d", info.Size(), need))
	}
	return nil
}

// newestMeta returns the valid meta page of the later transaction. The second page's place depends
// on the page size, which only the first one tells; if that is damaged, every size is tried.
func newestMeta(r io.ReaderAt) (boltMeta, bool) {
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
func readMeta(r io.ReaderAt, offset int64) (boltMeta, bool) {
	b := make([]byte, metaSize)
	if _, err := r.ReadAt(b, offset+pageHeaderSize); err != nil {
		return boltMeta{}, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	le := binary.LittleEndian
	if le.Uint32(b) != boltMagic || le.Uint32(b[4:]) != boltVersion || le.Uint64(b[metaSize-8:]) != sum.Sum64() {
		return boltMeta{}, false
	}
	return boltMeta{pageSize: uint64(le.Uint32(b[8:])), pages: le.Uint64(b[40:]), txid: le.Uint64(b[48:])}, true
}
