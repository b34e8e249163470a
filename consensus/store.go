package consensus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rota-hpc/rota/consensus/durable"
	"github.com/rota-hpc/rota/consensus/entry"
	"github.com/rota-hpc/rota/consensus/mark"
	"go.etcd.io/bbolt"
)

// Names of files in a directory.
const (
	versionFile  = "version"
	lockFile     = "lock"
	logFile      = "log.bolt"
	snapshotsDir = "snapshots" // the library requires this name
)

// directory is the directory of a node, used by one process at a time.
type directory struct {
	path     string
	lock     *os.File
	log      *raftboltdb.BoltStore
	fresh    bool // the log was created by this process
	promises *promises
}

// openDirectory locks dir for this process and opens its log.
//
// record, if set, is a file outside of dir that stores what the log has promised.
func openDirectory(dir, record string) (*directory, error) {
	if err := makeWritable(dir); err != nil {
		return nil, err
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		return nil, err
	}
	d := &directory{path: dir, lock: lock}
	if err := d.open(record); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// open does the part that needs the lock.
func (d *directory) open(record string) error {
	if err := checkVersion(d.path); err != nil {
		return err
	}
	if err := checkRefused(d.path); err != nil {
		return err
	}
	if err := removeUnfinished(d.path); err != nil {
		return err
	}
	path := filepath.Join(d.path, logFile)
	if err := createLog(path); err != nil {
		return err
	}
	if err := checkLog(path); err != nil {
		return err
	}
	var err error
	if d.log, err = openLog(path); err != nil {
		return err
	}
	if err := sound(path, d.readPromises); err != nil {
		return err
	}
	return d.checkRecord(record)
}

// claim assigns the log to a member, and refuses a log of another member: a copy of another
// controller's disk. Two members with one log would answer for each other's votes and entries.
func (d *directory) claim(name string) error {
	owner := name
	err := sound(filepath.Join(d.path, logFile), func() error {
		kept, err := d.log.Get(logOwnerKey)
		if errors.Is(err, raftboltdb.ErrKeyNotFound) {
			return d.log.Set(logOwnerKey, []byte(name))
		}
		owner = string(kept)
		return err
	})
	if err == nil && owner != name {
		err = &LogError{Dir: d.path, Kind: ErrOtherMember, Text: fmt.Sprintf("it is the log of member %s, but this is "+
			"member %s",
			owner, name)}
	}
	return err
}

// readPromises reads the log's id and its promises.
func (d *directory) readPromises() error {
	id, fresh, err := logID(d.log)
	if err != nil {
		return err
	}
	d.fresh = fresh
	d.promises, err = readPromises(d.path, d.log)
	if err == nil {
		d.promises.log = id
	}
	return err
}

// checkRecord refuses a log that has forgotten promises.
func (d *directory) checkRecord(record string) error {
	if record == "" {
		return nil
	}
	forgotten, err := d.promises.openRecord(record)
	if err != nil {
		return err
	}
	if forgotten == nil {
		return nil
	}
	e := &LogError{Dir: d.path, Kind: ErrRolledBack, Text: fmt.Sprintf("according to %s the log was at %s, but now it "+
		"is at %s",
		record, forgotten, d.promises.now())}
	return errors.Join(e, markRefused(e))
}

// sound calls read, and converts faults caused by damaged pages of the log at path into an error.
func sound(path string, read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corrupt(path, fmt.Errorf("%v", p))
		}
	}()
	if err := read(); err != nil {
		return corrupt(path, err)
	}
	return nil
}

// close releases the directory.
func (d *directory) close() error {
	var errs []error
	if d.promises != nil {
		errs = append(errs, d.promises.close())
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// makeWritable creates dir and tests whether files can be created in it.
func makeWritable(dir string) error {
	if err := makeDir(dir); err != nil {
		return notWritable(dir, err)
	}
	f, err := os.CreateTemp(dir, ".try-*")
	if err != nil {
		return notWritable(dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// makeDir creates dir and its missing parents, and makes the new names durable. Otherwise a synced
// file could be lost together with its directory.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	above := filepath.Dir(dir)
	if err := makeDir(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(above)
}

// notWritable explains an error.
func notWritable(dir string, err error) error {
	return fmt.Errorf("state directory %s: %w: %w (make it writable for this user, or name another with --data-dir)",
		dir, ErrNotWritable, err)
}

// lockWait is how long to wait for another process that holds a directory. The lock of a killed
// daemon is released only after the kernel has freed its memory.
const lockWait = 2 * time.Second

// lockDirectory keeps other processes out of dir until the file is closed or this process ends.
func lockDirectory(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, notWritable(dir, err)
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(err, f.Close())
		case time.Now().After(deadline):
			err = fmt.Errorf("state directory %s: %w (is the daemon running already?)", dir, ErrLocked)
			return nil, errors.Join(err, f.Close())
		}
	}
}

// removeUnfinished removes incomplete snapshots, which a crash leaves and the library keeps.
func removeUnfinished(dir string) error {
	unfinished, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*.tmp"))
	for _, path := range unfinished {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// boltOptions are the options of the log's database. The free list is rebuilt at each start instead
// of being written at each commit.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}

// createLog creates an empty log under another name and renames it, so that a crash never leaves
// half a log.
func createLog(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	db, err := bbolt.Open(fresh, 0o600, boltOptions())
	if err == nil {
		err = db.Close()
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return fmt.Errorf("make log %s: %w", path, err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

// openLog opens the log at path for reading and writing.
func openLog(path string) (*raftboltdb.BoltStore, error) { return openBolt(path, boltOptions()) }

// openBolt opens the database of a log. Damage that checkLog cannot see shows as a panic or as a
// fault in mapped memory.
func openBolt(path string, options *bbolt.Options) (store *raftboltdb.BoltStore, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			store, err = nil, corrupt(path, fmt.Errorf("%v", p))
		}
	}()
	store, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: options, MsgpackUseNewTimeFormat: true})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", path, err)
	}
	return store, nil
}

// corrupt explains how to recover from a damaged file.
func corrupt(path string, err error) error {
	return fmt.Errorf("%s: %w: %w (if other members are alive, move the directory away, remove this member and add it "+
		"again; otherwise restore a copy)", path, ErrCorrupt, err)
}

// snapshots is the library's snapshot store with durable names, because the log is shortened once a
// snapshot exists.
type snapshots struct {
	raft.SnapshotStore
	dir      string
	promises *promises
}

// openSnapshots opens the snapshots in a node's directory.
func openSnapshots(dir string, p *promises, log hclog.Logger) (*snapshots, error) {
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log)
	if err != nil {
		return nil, err
	}
	return &snapshots{store, filepath.Join(dir, snapshotsDir), p}, durable.SyncDir(dir)
}

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{sink, filepath.Join(s.dir, sink.ID()), func() { s.promises.entry(term, index) }}, nil
}

// snapshotSink is a snapshot being written; dir is its final directory.
type snapshotSink struct {
	raft.SnapshotSink
	dir  string
	done func()
}

// Close implements io.Closer: when it returns, the snapshot is complete and on disk.
func (s *snapshotSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return err
	}
	s.done()
	return nil
}

// guard checks every access to the log. After some disk failures the library panics, and after
// others it retries for ever. The guard reports the first failure, and ends the goroutine that met
// it, so that nothing is decided on a possibly damaged log. It also reports a write that hangs. A
// leader that waits for its disk still sends heartbeats, so the cluster would stand still.
type guard struct {
	store    *raftboltdb.BoltStore
	promises *promises                  // promises of the log
	applied  func() uint64              // last entry that the machine has, which is committed
	beyond   func(first uint64)         // called if the leader wants to replace committed entries, starting with first
	differs  func(*raft.Log)            // called with an entry that does not continue the log
	chain    entry.Chain                // chain up to the last entry
	fail     func(op string, err error) // called once, with the first failure
	stall    time.Duration              // time limit of a write

	mu   sync.Mutex // held during a write
	dead atomic.Bool
}

// errStalled is the failure of a node whose disk does not respond.
var errStalled = errors.New("the disk does not answer")

// kill makes every later access end its goroutine, as if the process had exited. A write in
// progress continues.
func (g *guard) kill() { g.dead.Store(true) }

// killAndWait kills the guard and waits for a write in progress.
func (g *guard) killAndWait() {
	g.kill()
	g.mu.Lock()
	defer g.mu.Unlock()
}

// write runs f unless the guard is dead; an error kills the guard.
func (g *guard) write(op string, f func() error) {
	defer time.AfterFunc(g.stall, func() {
		g.fail(op, fmt.Errorf("%w: a write takes more than %v", errStalled, g.stall))
	}).Stop()
	if err := g.writeLocked(f); err != nil {
		g.fail(op, err)
		runtime.Goexit()
	}
}

// writeLocked is the part of write that holds the lock.
func (g *guard) writeLocked(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead.Load() {
		return errLogClosed
	}
	err := f()
	if err != nil {
		g.kill()
	}
	return err
}

// errLogClosed ends goroutines that access the log after the first failure.
var errLogClosed = errors.New("log is closed")

// read ends the goroutine after an error, except for a missing entry or key.
func (g *guard) read(op string, err error) error {
	if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return err
	}
	g.kill()
	g.fail(op, err)
	runtime.Goexit()
	return err
}

// FirstIndex returns the first stored entry, or 0.
func (g *guard) FirstIndex() (uint64, error) {
	i, err := g.store.FirstIndex()
	return i, g.read("read the log", err)
}

// LastIndex returns the last entry, or 0.
func (g *guard) LastIndex() (uint64, error) {
	i, err := g.store.LastIndex()
	return i, g.read("read the log", err)
}

// GetLog reads one entry.
func (g *guard) GetLog(index uint64, log *raft.Log) error {
	return g.read("read the log", g.store.GetLog(index, log))
}

// StoreLog writes one entry.
func (g *guard) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries; they are on disk when it returns.
func (g *guard) StoreLogs(logs []*raft.Log) error {
	g.link(logs)
	g.write("write the log", func() error { return g.store.StoreLogs(logs) })
	if n := len(logs); n > 0 {
		g.promises.commit(g.applied())
		g.promises.entry(logs[n-1].Term, logs[n-1].Index)
	}
	return nil
}

// DeleteRange removes entries that a snapshot includes, or that another leader replaces.
func (g *guard) DeleteRange(first, last uint64) error {
	end, _ := g.LastIndex()
	if last >= end {
		g.replace(first)
	}
	g.write("shorten the log", func() error { return g.store.DeleteRange(first, last) })
	if last >= end {
		g.chain = g.chainAt(first - 1)
	}
	return nil
}

// replace prepares the replacement of the log's end, from first on, as requested by the leader. No
// leader requests that for committed entries, unless other members have lost them.
func (g *guard) replace(first uint64) {
	if first <= max(g.applied(), g.promises.lastCommit()) {
		g.beyond(first)
		g.kill()
		runtime.Goexit()
	}
	cut := g.promises.cutValue()
	g.write("shorten the log", func() error { return g.store.Set(cutKey, cut) })
}

// Set implements raft.StableStore: the vote.
func (g *guard) Set(key, value []byte) error {
	g.write("write the vote", func() error { return g.store.Set(key, value) })
	return nil
}

// SetUint64 implements raft.StableStore: the term.
func (g *guard) SetUint64(key []byte, value uint64) error {
	g.write("write the term", func() error { return g.store.SetUint64(key, value) })
	switch string(key) {
	case string(termKey):
		g.promises.raise(mark.Mark{Term: value})
	case string(voteKey):
		g.promises.raise(mark.Mark{Vote: value})
	}
	return nil
}

// Get implements raft.StableStore: the vote. The library recognises the error for a missing key by
// its text.
func (g *guard) Get(key []byte) ([]byte, error) {
	v, err := g.store.Get(key)
	return v, g.read("read the vote", err)
}

// GetUint64 implements raft.StableStore: the term.
func (g *guard) GetUint64(key []byte) (uint64, error) {
	v, err := g.store.GetUint64(key)
	return v, g.read("read the term", err)
}
