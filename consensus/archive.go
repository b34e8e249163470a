package consensus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/rota-hpc/rota/consensus/entry"
)

// Archive gives read access to the directory of a stopped member, or to a copy of it. While the
// archive is open, the member cannot start.
type Archive struct {
	dir       string
	lock      *os.File // nil: the copy has no lock file
	log       *raftboltdb.BoltStore
	first     uint64          // first entry of the log; 0: the log is empty
	last      uint64          // last entry; 0: the log is empty
	snapshots []*snapshotMeta // sorted by index
}

// snapshotMeta is the metadata that the library writes beside each snapshot.
type snapshotMeta struct {
	raft.SnapshotMeta
	CRC []byte
}

// Start is the start of a replay: a snapshot, or the empty state.
type Start struct {
	Index uint64 // last entry that the state includes
	id    string // id of the snapshot; "": the empty state
}

// Snapshot reports whether the start is a snapshot.
func (s Start) Snapshot() bool { return s.id != "" }

// OpenArchive opens dir. Errors wrap ErrLocked if a member runs on dir, ErrNewer or ErrCorrupt.
func OpenArchive(dir string) (*Archive, error) {
	a := &Archive{dir: dir}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Archive) open() error {
	path := filepath.Join(a.dir, logFile)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("no log: %w", err)
	}
	if err := a.takeLock(); err != nil {
		return err
	}
	if err := readVersion(a.dir); err != nil {
		return err
	}
	if err := checkLog(path); err != nil {
		return err
	}
	options := boltOptions()
	options.ReadOnly, options.Timeout = true, lockWait
	var err error
	if a.log, err = openBolt(path, options); err != nil {
		return err
	}
	if a.first, a.last, err = a.bounds(); err != nil {
		return err
	}
	if a.snapshots, err = readMetas(filepath.Join(a.dir, snapshotsDir)); err != nil {
		return err
	}
	return a.agree()
}

// takeLock takes a shared lock on the member's lock file, without changing the directory.
func (a *Archive) takeLock() error {
	f, err := os.Open(filepath.Join(a.dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("state directory %s: %w", a.dir, err)
	}
	a.lock = f
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return fmt.Errorf("state directory %s: %w: a controller runs on it", a.dir, ErrLocked)
	case err != nil:
		return fmt.Errorf("lock state directory %s: %w", a.dir, err)
	}
	return nil
}

// readVersion refuses a directory of a newer version. Unlike checkVersion, it changes nothing.
func readVersion(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, versionFile)); errors.Is(err, fs.ErrNotExist) {
		return corrupt(filepath.Join(dir, versionFile), errors.New("missing, although a log exists"))
	}
	return checkVersion(dir)
}

// bounds returns the first and the last entry of the log.
func (a *Archive) bounds() (first, last uint64, err error) {
	err = a.sound("its bounds", func() error {
		if first, err = a.log.FirstIndex(); err == nil {
			last, err = a.log.LastIndex()
		}
		return err
	})
	return first, last, err
}

// sound calls read, and converts faults caused by damaged pages into errors that name the file.
func (a *Archive) sound(what string, read func() error) (err error) {
	path := filepath.Join(a.dir, logFile)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %s: %w: %v", path, what, ErrCorrupt, p)
		}
	}()
	if err := read(); err != nil {
		return fmt.Errorf("%s: %s: %w", path, what, err)
	}
	return nil
}

// readMetas lists the complete snapshots in dir, by index.
func readMetas(dir string) ([]*snapshotMeta, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil {
		return nil, err
	}
	var metas []*snapshotMeta
	for _, path := range files {
		if filepath.Ext(filepath.Dir(path)) == ".tmp" { // a crash left this snapshot incomplete
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
		m := &snapshotMeta{}
		if err := json.Unmarshal(text, m); err != nil || m.ID != filepath.Base(filepath.Dir(path)) {
			return nil, fmt.Errorf("%s: %w: it does not describe the snapshot in the same directory", path, ErrCorrupt)
		}
		metas = append(metas, m)
	}
	slices.SortFunc(metas, func(a, b *snapshotMeta) int {
		if a.Index < b.Index {
			return -1
		}
		return 1
	})
	return metas, nil
}

// agree checks that each snapshot ends with the same entry that the log has at that index.
func (a *Archive) agree() error {
	for _, m := range a.snapshots {
		if m.Index < a.first || m.Index > a.last || a.first == 0 {
			continue
		}
		l, err := a.entry(m.Index)
		if err != nil {
			return err
		}
		if l.Term != m.Term {
			return fmt.Errorf("%s: %w: snapshot %s ends with entry %d of term %d, but the log has term %d there: they come "+
				"from different clusters, or were copied at different times", a.dir, ErrCorrupt, m.ID, m.Index, m.Term, l.Term)
		}
	}
	return nil
}

// Bounds returns the first and the last entry of the log, 0 if it has none.
func (a *Archive) Bounds() (first, last uint64) { return a.first, a.last }

// Earliest returns the earliest state after which no entry is missing.
func (a *Archive) Earliest() (Start, error) {
	if a.first == 1 {
		return Start{}, nil
	}
	for _, m := range a.snapshots {
		if a.first == 0 || m.Index+1 >= a.first {
			return Start{Index: m.Index, id: m.ID}, nil
		}
	}
	if len(a.snapshots) == 0 {
		return Start{}, fmt.Errorf("%s: %w: the log begins with entry %d, and no snapshot has the entries before it",
			a.dir, ErrCorrupt, a.first)
	}
	return Start{}, fmt.Errorf("%s: %w: the last snapshot ends with entry %d and the log begins with entry %d: the "+
		"entries between are missing", a.dir, ErrCorrupt, a.snapshots[len(a.snapshots)-1].Index, a.first)
}

// Later returns the snapshots after s, in order.
func (a *Archive) Later(s Start) []Start {
	var later []Start
	for _, m := range a.snapshots {
		if m.Index > s.Index {
			later = append(later, Start{Index: m.Index, id: m.ID})
		}
	}
	return later
}

// Read passes the state of a snapshot to read.
func (a *Archive) Read(s Start, read func(io.Reader) error) error {
	path := filepath.Join(a.dir, snapshotsDir, s.id, "state.bin")
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	at := slices.IndexFunc(a.snapshots, func(m *snapshotMeta) bool { return m.ID == s.id })
	if at < 0 {
		return fmt.Errorf("%s: no such snapshot", path)
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	sum.Write(b)
	if m := a.snapshots[at]; int64(len(b)) != m.Size || !bytes.Equal(sum.Sum(nil), m.CRC) {
		return fmt.Errorf("%s: %w: it has %d bytes instead of %d, or a wrong checksum", path, ErrCorrupt, len(b), m.Size)
	}
	r := bytes.NewReader(b)
	if _, err := readHeader(r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer z.Close()
	if err := read(z); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Entries calls each with the proposals of every entry after s, in order, until each returns an
// error. It skips entries without proposals, such as those of elections. The last entries may be
// uncommitted, but they were proposed on the basis of the entries before them.
func (a *Archive) Entries(s Start, each func(index uint64, proposals [][]byte) error) error {
	if a.first == 0 {
		return nil
	}
	for i := s.Index + 1; i <= a.last; i++ {
		l, err := a.entry(i)
		if err != nil {
			return err
		}
		if l.Type != raft.LogCommand {
			continue
		}
		proposals, err := entry.Decode(l.Data)
		if err != nil {
			return fmt.Errorf("%s: entry %d of %d: %w: %w", filepath.Join(a.dir, logFile), i, a.last, ErrCorrupt, err)
		}
		if err := each(i, proposals); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

func (a *Archive) entry(i uint64) (*raft.Log, error) {
	l := &raft.Log{}
	err := a.sound(fmt.Sprintf("entry %d of %d", i, a.last), func() error {
		switch err := a.log.GetLog(i, l); {
		case errors.Is(err, raft.ErrLogNotFound):
			return fmt.Errorf("%w: it is missing", ErrCorrupt)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		case l.Index != i:
			return fmt.Errorf("%w: entry %d is stored in its place", ErrCorrupt, l.Index)
		}
		return nil
	})
	return l, err
}

// Close releases the lock, so that the member can start again.
func (a *Archive) Close() error {
	var errs []error
	if a.log != nil {
		errs = append(errs, a.log.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	return errors.Join(errs...)
}
