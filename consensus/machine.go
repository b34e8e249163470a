package consensus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"
	"github.com/rota-hpc/rota/consensus/entry"
)

// adapter connects a Machine to the library's callbacks, which never overlap.
type adapter struct {
	machine  Machine
	fail     func(op string, err error)
	inFlight func(*raft.Log) *batch // the callers that wait for an entry, if this member proposed it
	due      chan struct{}          // has an element when a snapshot is due
	every    int

	applied atomic.Uint64 // index of the last entry passed to Machine

	mu          sync.Mutex
	entries     int   // entries since the last snapshot
	entriesSize int64 // their bytes
	stateSize   int64 // uncompressed bytes of the last snapshot
	restoreErr  error // error of the last Restore
}

// ApplyBatch implements raft.BatchingFSM.
func (a *adapter) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	for i, l := range logs {
		results[i] = a.Apply(l)
	}
	return results
}

// Apply passes one entry to the machine. The result is a []any with one element for each proposal.
func (a *adapter) Apply(l *raft.Log) any {
	if l.Type != raft.LogCommand {
		return nil
	}
	results := a.carryOut(l)
	a.applied.Store(l.Index)
	a.countEntries(1, int64(len(l.Data)))
	return results
}

// partCount is how many proposals of an entry are applied before their callers get answers, so that
// these callers can continue while others are applied.
const partCount = 16

// carryOut passes the proposals of an entry to the machine: in parts if callers wait here,
// otherwise in one call.
func (a *adapter) carryOut(l *raft.Log) []any {
	f := a.inFlight(l)
	if f == nil {
		proposals, err := entry.Decode(l.Data)
		if err != nil {
			a.fail(fmt.Sprintf("apply entry %d", l.Index), errors.Join(ErrCorrupt, err))
			runtime.Goexit() // later entries must not be applied without this one
		}
		return a.apply(l.Index, proposals)
	}
	results := make([]any, 0, len(f.group))
	for part := range slices.Chunk(f.group, partCount) {
		done := a.apply(l.Index, contents(part))
		f.answer(len(results), done, l.Index)
		results = append(results, done...)
	}
	return results
}

// apply lets the machine execute proposals.
func (a *adapter) apply(index uint64, proposals [][]byte) []any {
	results := a.machine.Apply(index, proposals)
	if len(results) != len(proposals) {
		panic(fmt.Sprintf("consensus: Apply returned %d results for %d proposals", len(results), len(proposals)))
	}
	return results
}

// countEntries counts entries since the last snapshot, and requests a snapshot when it is due.
func (a *adapter) countEntries(entries int, size int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries += entries
	a.entriesSize += size
	if a.snapshotDue() {
		select {
		case a.due <- struct{}{}:
		default:
		}
	}
}

// snapshotDue reports whether the log has grown enough since the last snapshot. For a large state,
// the log must have as many bytes as the state. The cost per entry then does not grow with the
// state, and a start reads at most about twice the state. The caller holds mu.
func (a *adapter) snapshotDue() bool {
	if a.entries < a.every && a.entriesSize < snapshotBytes {
		return false
	}
	return a.stateSize < smallState || a.entriesSize >= a.stateSize
}

// snapshotBytes is the number of bytes of entries that makes a snapshot due, even with fewer than
// Config.SnapshotEvery entries.
const snapshotBytes = 128 << 20

// smallState is the size in bytes below which writing the state is almost free.
const smallState = 1 << 20

// recordSize stores the size of a snapshot.
func (a *adapter) recordSize(size int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stateSize = size
}

// counter counts the bytes written to it.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// meanSize returns the mean size of the entries since the last snapshot.
func (a *adapter) meanSize() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.entriesSize / int64(max(a.entries, 1))
}

// Snapshot implements raft.FSM.
func (a *adapter) Snapshot() (raft.FSMSnapshot, error) {
	write, err := a.machine.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	a.mu.Lock()
	a.entries, a.entriesSize = 0, 0
	a.mu.Unlock()
	return &snapshot{write: write, recordSize: a.recordSize, applied: a.applied.Load()}, nil
}

// Restore implements raft.FSM.
func (a *adapter) Restore(r io.ReadCloser) error {
	applied, size, err := restore(r, a.machine)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restoreErr = err
	if err != nil {
		return err
	}
	a.applied.Store(applied)
	a.entries, a.entriesSize, a.stateSize = 0, 0, size
	return nil
}

// lastRestoreError returns the error of the last Restore, which the library only logs.
func (a *adapter) lastRestoreError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.restoreErr
}

// A snapshot file is a zstd stream. It starts with a frame that decoders skip, so that `zstd -dc`
// shows only the state.
const (
	snapshotFormat = 1
	skippableFrame = 0x184D2A50
	maxHeaderSize  = 4096
)

// snapshotHeader is the JSON content of that frame.
type snapshotHeader struct {
	Format  int    `json:"format"`
	Applied uint64 `json:"applied"` // index of the last entry in the state
}

// snapshot is a state that waits to be written.
type snapshot struct {
	write      func(io.Writer) error
	recordSize func(size int64) // gets the number of bytes of the state
	applied    uint64
}

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.writeTo(sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot %s: %w", sink.ID(), err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s *snapshot) Release() {}

// writeTo writes header and state.
func (s *snapshot) writeTo(w io.Writer) error {
	text, err := json.Marshal(snapshotHeader{Format: snapshotFormat, Applied: s.applied})
	if err != nil {
		return err
	}
	frame := binary.LittleEndian.AppendUint32(nil, skippableFrame)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(text)))
	if _, err := w.Write(append(frame, text...)); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	var size counter
	if err := errors.Join(s.write(io.MultiWriter(z, &size)), z.Close()); err != nil {
		return err
	}
	s.recordSize(int64(size))
	return nil
}

// restore reads a snapshot into m, and returns the index of its last entry and the size of the
// state.
func restore(r io.Reader, m Machine) (applied uint64, size int64, err error) {
	h, err := readHeader(r)
	if err != nil {
		return 0, 0, fmt.Errorf("snapshot header: %w", err)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return 0, 0, fmt.Errorf("snapshot: %w", err)
	}
	defer z.Close()
	var read counter
	if err := m.Restore(io.TeeReader(z, &read)); err != nil {
		return 0, 0, fmt.Errorf("restore the snapshot at entry %d: %w", h.Applied, err)
	}
	return h.Applied, int64(read), nil
}

// readHeader reads the first frame.
func readHeader(r io.Reader) (snapshotHeader, error) {
	var h snapshotHeader
	var frame [8]byte
	if _, err := io.ReadFull(r, frame[:]); err != nil {
		return h, errors.Join(ErrCorrupt, err)
	}
	size := binary.LittleEndian.Uint32(frame[4:])
	if binary.LittleEndian.Uint32(frame[:]) != skippableFrame || size > maxHeaderSize {
		return h, fmt.Errorf("unknown format %x: %w", frame, ErrCorrupt)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, errors.Join(ErrCorrupt, err)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, errors.Join(ErrCorrupt, err)
	}
	if h.Format > snapshotFormat {
		return h, fmt.Errorf("format %d: %w", h.Format, ErrNewer)
	}
	return h, nil
}
