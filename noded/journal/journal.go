package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// FinalsKept is how many results are kept after their containers are gone. A controller that
	// has not yet seen a result, or answers from an older state, may still ask for that container.
	// It gets the result again instead of a second run.
	FinalsKept = 4096
	// compactMin is the size in bytes from which the file is rewritten, unless most of it is still
	// needed.
	compactMin = 4 << 20
	// reserveSize is the space in bytes that is reserved in advance, so that results can be written
	// on a full disk too. Jobs whose output has filled the disk are stopped that way.
	reserveSize = 1 << 20
)

// Journal is an open journal. It may be used from several goroutines.
type Journal struct {
	path    string
	dropped int64

	mu         sync.Mutex
	file       *os.File
	size       int64 // of what is written and valid
	reservedTo int64 // size up to which disk space is reserved
	compactAt  int64 // size at which the file is rewritten
	state      entrySet
	waiting    *batch // collects records while the last batch is written
	writing    bool
	broken     error // set when the file cannot be trusted any more
	closed     bool

	writer sync.WaitGroup // runs writeAll
}

// batch is a group of records that share one fsync.
type batch struct {
	records []Record
	done    chan struct{}
	err     error
}

// Open reads the journal at path, or starts a new one, and locks it against other processes. A
// record torn by a crash is dropped (see [Journal.Dropped]); other damage is a *CorruptError.
func Open(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{path: path, file: f, state: newEntrySet(), waiting: newBatch()}
	err = j.load()
	if err == nil {
		err = syncName(path)
	}
	if err != nil {
		return nil, errors.Join(err, j.file.Close())
	}
	return j, nil
}

// syncName makes the name of a new file durable. Without it a power cut may take the whole file.
func syncName(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open the directory of the journal: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync the directory of the journal: %w", err)
	}
	return nil
}

// ErrLocked means that another process has the journal open.
var ErrLocked = errors.New("another node daemon uses this data directory")

// lockWait is how long another process may hold the lock. If a daemon is killed while it starts a
// program, the child holds the lock until that program runs.
const lockWait = 2 * time.Second

// lock locks the journal. A running daemon may replace the file meanwhile: it holds the lock of the
// new file and has released that of this one.
func (j *Journal) lock() error {
	for deadline := time.Now().Add(lockWait); syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; {
		if time.Now().After(deadline) {
			return ErrLocked
		}
		time.Sleep(20 * time.Millisecond)
	}
	mine, err := j.file.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(j.path); err != nil || !os.SameFile(mine, named) {
		return ErrLocked
	}
	return nil
}

func (j *Journal) load() error {
	if err := j.lock(); err != nil {
		return fmt.Errorf("lock journal %s: %w", j.path, err)
	}
	data, err := os.ReadFile(j.path)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	records, good, err := decode(j.path, data)
	if err != nil {
		return err
	}
	for _, r := range records {
		j.state.apply(r)
	}
	j.dropped, j.size = int64(len(data))-good, good
	if j.dropped > 0 {
		if err := j.file.Truncate(good); err != nil {
			return fmt.Errorf("remove torn record of journal: %w", err)
		}
	}
	return j.rewrite()
}

// Dropped returns how many bytes of a torn record Open removed.
func (j *Journal) Dropped() int64 { return j.dropped }

// Entries returns what is known of every container that is not forgotten, in order of first
// mention.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.entries()
}

// Entry returns what is known of one container.
func (j *Journal) Entry(id string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if k := j.state.kept[id]; k != nil {
		return k.Entry, true
	}
	return Entry{}, false
}

// Append writes records and returns when they are on disk. Concurrent calls share one fsync. After
// an error the records are not in the journal, and the call may be repeated.
func (j *Journal) Append(records ...Record) error {
	for i := range records {
		if err := records[i].check(); err != nil {
			return err
		}
	}
	j.mu.Lock()
	if err := j.broken; err != nil || j.closed {
		defer j.mu.Unlock()
		if j.closed {
			err = errors.Join(err, fmt.Errorf("journal %s: %w", j.path, os.ErrClosed))
		}
		return err
	}
	b := j.waiting
	b.records = append(b.records, records...)
	if !j.writing {
		j.writing = true
		j.writer.Go(j.writeAll)
	}
	j.mu.Unlock()
	<-b.done
	return b.err
}

// writeAll writes batches until none is waiting.
func (j *Journal) writeAll() {
	for {
		j.mu.Lock()
		b := j.waiting
		if len(b.records) == 0 {
			j.writing = false
			j.mu.Unlock()
			return
		}
		j.waiting = newBatch()
		j.mu.Unlock()
		b.err = j.write(b.records)
		close(b.done)
	}
}

// write puts one batch on disk. Only one goroutine at a time calls it.
func (j *Journal) write(records []Record) error {
	if j.broken != nil {
		return j.broken
	}
	buf, err := encode(records)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(buf); err != nil {
		return j.undo(fmt.Errorf("write journal: %w", err))
	}
	if err := j.file.Sync(); err != nil {
		// It is unknown what a failed fsync has left on disk, and a second one may report success
		// wrongly.
		j.fail(fmt.Errorf("cannot write journal %s to disk: %w; restart the node daemon when the disk works again",
			j.path, err))
		return j.broken
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size += int64(len(buf))
	for _, r := range records {
		j.state.apply(r)
	}
	if j.size >= j.compactAt {
		return j.rewrite()
	}
	j.reserve()
	return nil
}

const keepSize = 1 // FALLOC_FL_KEEP_SIZE

// reserve reserves disk space beyond what is written. Where that fails, writes may fail later.
func (j *Journal) reserve() {
	if j.size+reserveSize/2 <= j.reservedTo {
		return
	}
	if syscall.Fallocate(int(j.file.Fd()), keepSize, 0, j.size+reserveSize) == nil {
		j.reservedTo = j.size + reserveSize
	}
}

// undo removes what a failed write has left, such as half a record on a full disk.
func (j *Journal) undo(cause error) error {
	j.reservedTo = 0
	if err := j.file.Truncate(j.size); err != nil {
		j.fail(fmt.Errorf("%w; and cannot remove the unfinished record: %w", cause, err))
	}
	return cause
}

func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = err
}

// rewrite replaces the file by one with only what is still needed, and keeps the old one if that
// fails. The caller holds mu, or no other goroutine runs.
func (j *Journal) rewrite() error {
	buf, err := encode(j.state.records())
	if err != nil {
		return err
	}
	j.compactAt = max(compactMin, 2*int64(len(buf)))
	if int64(len(buf)) == j.size {
		j.reserve()
		return nil
	}
	f, err := replaceFile(j.path, buf)
	if err != nil {
		// The old file is whole: continue with it, and try again when it has doubled.
		j.compactAt = 2 * max(compactMin, j.size)
		return nil
	}
	old := j.file
	j.file, j.size, j.reservedTo = f, int64(len(buf)), 0
	j.reserve()
	return old.Close()
}

// replaceFile writes data beside path, locks the new file, and renames it over path. After the
// rename only the disk can fail. The old file must not be used then, because it has no name any
// more.
func replaceFile(path string, data []byte) (_ *os.File, err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(temporary))
		}
	}()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, err
	}
	_ = dir.Sync() // without it, a crash of the machine may bring back the old file
	return f, nil
}

// Close waits for what is being written and closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.writer.Wait()
	return j.file.Close()
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// entrySet is the sum of all records so far.
type entrySet struct {
	kept   map[string]*keptEntry
	seen   uint64
	finals []string // oldest first; some may be forgotten since
}

// keptEntry is an entry with its place in the order of first mention.
type keptEntry struct {
	Entry
	order uint64
}

func newEntrySet() entrySet { return entrySet{kept: map[string]*keptEntry{}} }

func (f *entrySet) apply(r Record) {
	if r.Op == Forget {
		delete(f.kept, r.ID)
		return
	}
	k := f.kept[r.ID]
	if r.Op == Measured && (k == nil || k.Final != nil) || r.Op == StepsKnown && k == nil {
		return // it has ended meanwhile
	}
	if k == nil {
		f.seen++
		k = &keptEntry{Entry: Entry{ID: r.ID}, order: f.seen}
		f.kept[r.ID] = k
	}
	switch r.Op {
	case Intend, Bound:
		k.Cores = r.Cores
	case Started:
		k.Started = true
	case Measured:
		k.Measures = r.Measures
	case Early:
		k.Early = true
	case Stopped:
		k.Stopped, k.Signal = r.Cause, r.Signal
	case Final:
		f.keepFirstResult(k, r)
	case StepBegun, StepEnded:
		k.putStep(*r.Step)
	case StepsKnown:
		k.knowSteps(r)
	}
	if len(k.Steps) == 0 {
		k.Steps = nil
		if k.Final != nil { // it starts no more, and all is known of those that it has started
			k.NextStep, k.Rows, k.Known = 0, 0, 0
		}
	}
	if k.Final != nil {
		k.Unread = nil
	}
}

// putStep notes what is known of a step.
func (e *Entry) putStep(s Step) {
	others := slices.DeleteFunc(slices.Clone(e.Steps), func(o Step) bool { return o.N == s.N })
	e.Steps, e.NextStep = append(others, s), max(e.NextStep, s.N+1)
	if s.Report != nil {
		e.Rows = max(e.Rows, s.Report.Row)
	}
	if s.Unread != "" {
		e.remember(Unread{s.N, s.Unread})
	}
}

// remember notes steps whose requests may come again.
func (e *Entry) remember(steps ...Unread) {
	for _, u := range steps {
		e.Unread = append(slices.DeleteFunc(slices.Clone(e.Unread), func(o Unread) bool { return o.N == u.N }), u)
		e.Unread = e.Unread[max(0, len(e.Unread)-unreadMost):]
	}
}

// knowSteps drops the steps that the controllers know.
func (e *Entry) knowSteps(r Record) {
	e.Known, e.Rows, e.NextStep = max(e.Known, r.Row), max(e.Rows, r.Row), max(e.NextStep, r.Next)
	e.remember(r.Unread...)
	e.Steps = slices.DeleteFunc(slices.Clone(e.Steps), func(s Step) bool {
		return s.Report != nil && s.Report.Row <= e.Known
	})
}

// keepFirstResult keeps the first result of a container, and drops the oldest result if there are
// too many.
func (f *entrySet) keepFirstResult(k *keptEntry, r Record) {
	if k.Final != nil {
		return
	}
	k.Final, k.Cores, k.Measures = r.Final, nil, nil
	k.Steps = slices.DeleteFunc(slices.Clone(k.Steps), func(s Step) bool { return s.Report == nil })
	f.finals = append(f.finals, r.ID)
	if len(f.finals) > FinalsKept {
		delete(f.kept, f.finals[0])
		f.finals = f.finals[1:]
	}
}

func (f *entrySet) entries() []Entry {
	var out []Entry
	byOrder := func(a, b *keptEntry) int { return cmp.Compare(a.order, b.order) }
	for _, k := range slices.SortedFunc(maps.Values(f.kept), byOrder) {
		out = append(out, k.Entry)
	}
	return out
}

// records returns the shortest journal that has the same entries.
func (f *entrySet) records() []Record {
	var out []Record
	for _, e := range f.entries() {
		if e.Final == nil {
			out = append(out, Record{Op: Intend, ID: e.ID, Cores: e.Cores})
		}
		if e.Started {
			out = append(out, Record{Op: Started, ID: e.ID})
		}
		if e.Measures != nil {
			out = append(out, Record{Op: Measured, ID: e.ID, Measures: e.Measures})
		}
		if e.Early {
			out = append(out, Record{Op: Early, ID: e.ID})
		}
		if e.Stopped != "" {
			out = append(out, Record{Op: Stopped, ID: e.ID, Cause: e.Stopped, Signal: e.Signal})
		}
		if e.NextStep > 0 && (e.Final == nil || len(e.Steps) > 0) {
			out = append(out, Record{Op: StepsKnown, ID: e.ID, Row: e.Known, Next: e.NextStep, Unread: e.Unread})
		}
		for i := range e.Steps {
			o := StepBegun
			if e.Steps[i].Report != nil {
				o = StepEnded
			}
			out = append(out, Record{Op: o, ID: e.ID, Step: &e.Steps[i]})
		}
		if e.Final != nil {
			out = append(out, Record{Op: Final, ID: e.ID, Final: e.Final})
		}
	}
	return out
}
