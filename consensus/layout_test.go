package consensus

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/durable"
	"github.com/rota-hpc/rota/consensus/entry"
	"github.com/rota-hpc/rota/consensus/mark"
	"github.com/rota-hpc/rota/consensus/raftlog"
)

// The tests here write down bytes and bounds that another version of a member relies on. They use
// literals on purpose: a constant that changes changes the layout.

// TestBytesOfARecord reads and writes a record byte by byte.
func TestBytesOfARecord(t *testing.T) {
	const id = "0123456789abcdef"
	text := []byte(id)
	for _, v := range []uint64{3, 2, 5, 40, 39} { // term, vote, term and index of the last entry, commit
		text = binary.BigEndian.AppendUint64(text, v)
	}
	text = binary.BigEndian.AppendUint32(text, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	path := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p, forgotten := recorded(t, path, id, mark.Mark{Term: 3, Vote: 2, LastTerm: 5, Last: 40})
	if forgotten != nil || !p.recorded || p.lastCommit() != 39 {
		t.Errorf("recorded %t, forgotten %v, commit %d", p.recorded, forgotten, p.lastCommit())
	}
	p.raise(mark.Mark{Term: 4})
	binary.BigEndian.PutUint64(text[16:], 4)
	binary.BigEndian.PutUint32(text[56:], crc32.Checksum(text[:56], crc32.MakeTable(crc32.Castagnoli)))
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the record is\n%x, want\n%x, %v", got, text, err)
	}
	if got := hex.EncodeToString(p.cutValue()); got != "00000000000000050000000000000028" {
		t.Errorf("the end of the log before it is cut: %s", got)
	}
	m := mark.Mark{Term: 6, Vote: 5, LastTerm: 4, Last: 70}
	if got := m.String(); got != "entry 70 of term 4, term 6, vote in term 5" {
		t.Errorf("a mark is written as %q", got)
	}
	// A record that cannot be written is no proof any more.
	if p.record.Close() != nil {
		t.Fatal("the record does not close")
	}
	p.raise(mark.Mark{Term: 5})
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) || p.record != nil {
		t.Errorf("a record that was not written is left: %v", err)
	}
	if err := p.close(); err != nil {
		t.Errorf("a record that is gone does not close: %v", err)
	}
	if _, err := (&promises{log: id}).openRecord(filepath.Join(path, "below")); err == nil ||
		!strings.Contains(err.Error(), "record of what") {
		t.Errorf("a record that cannot be made: %v", err)
	}
}

// TestBytesOfASnapshot: the header is one frame that decoders skip, of at most 4096 bytes.
func TestBytesOfASnapshot(t *testing.T) {
	var size int64
	s := &snapshot{write: func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err }, applied: 12,
		recordSize: func(n int64) { size = n }}
	var b bytes.Buffer
	if err := s.writeTo(&b); err != nil {
		t.Fatal(err)
	}
	want := "\x50\x2a\x4d\x18\x19\x00\x00\x00" + `{"format":1,"applied":12}` + "\x28\xb5\x2f\xfd"
	if !strings.HasPrefix(b.String(), want) || size != 5 {
		t.Errorf("it begins with %q and has a state of %d bytes", b.String()[:len(want)], size)
	}
	l := &text{}
	if applied, size, err := restore(&b, l); applied != 12 || size != 5 || err != nil || l.read != "state" {
		t.Errorf("read again: entry %d, %d bytes %q, %v", applied, size, l.read, err)
	}
	for header, want := range map[int]bool{4096: true, 4097: false} {
		frame := binary.LittleEndian.AppendUint32([]byte("\x50\x2a\x4d\x18"), uint32(header))
		_, err := readHeader(strings.NewReader(string(frame) + "{}" + strings.Repeat(" ", header-2)))
		if (err == nil) != want {
			t.Errorf("a header of %d bytes: %v", header, err)
		}
	}
	torn := errors.New("torn")
	s.write = func(io.Writer) error { return torn }
	size = 0
	if err := s.writeTo(io.Discard); !errors.Is(err, torn) || size != 0 {
		t.Errorf("a state that is not written: %v, size %d", err, size)
	}
	if err := s.writeTo(full{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a header that is not written: %v", err)
	}
	for name, c := range map[string]struct {
		write          error
		close          error
		ended, dropped bool
		want           error
	}{"whole": {nil, nil, true, false, nil}, "torn": {torn, nil, false, true, torn},
		"not on disk": {nil, torn, true, false, torn}} {
		sink := &sink{err: c.close}
		s.write = func(io.Writer) error { return c.write }
		if err := s.Persist(sink); !errors.Is(err, c.want) || sink.closed != c.ended || sink.cancelled != c.dropped {
			t.Errorf("a snapshot, %s: %v, %+v", name, err, sink)
		}
	}
}

// text is a machine whose state is a text.
type text struct {
	counting
	read string
	err  error
}

func (m *text) Restore(r io.Reader) error {
	b, err := io.ReadAll(r)
	m.read = string(b)
	return errors.Join(err, m.err)
}

func (m *text) Snapshot() (func(io.Writer) error, error) { return nil, m.err }

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// sink is where a snapshot goes.
type sink struct {
	bytes.Buffer
	err               error // of Close
	closed, cancelled bool
}

func (s *sink) ID() string { return "s1" }

func (s *sink) Close() error { s.closed = true; return s.err }

func (s *sink) Cancel() error { s.cancelled = true; return nil }

// TestBoundsOfProposals are 32 MiB for one, and 1 MiB for a group of several.
func TestBoundsOfProposals(t *testing.T) {
	n := silentCluster(t, 3)
	var not *NotLeaderError
	if _, _, err := n.Propose(t.Context(), make([]byte, 32<<20)); !errors.As(err, &not) {
		t.Errorf("the largest: %v", err)
	}
	if _, _, err := n.Propose(t.Context(), make([]byte, 32<<20+1)); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "33554433 bytes, at most 33554432") {
		t.Errorf("one that is too large: %v", err)
	}
	group := func(sizes ...int) int {
		n := bare()
		for _, size := range sizes[1:] {
			n.proposals <- &proposal{data: make([]byte, size), done: make(chan struct{})}
		}
		return len(n.collectGroup(&proposal{data: make([]byte, sizes[0]), done: make(chan struct{})}, 0))
	}
	if full, nearly := group(1<<20, 1), group(1<<20-1, 1, 1); full != 1 || nearly != 2 {
		t.Errorf("%d proposals with one of 1 MiB, %d with one of nearly as much", full, nearly)
	}
	if got := cap(n.proposals); got != 4096 {
		t.Errorf("%d proposals may wait", got)
	}
	for _, stop := range []func(*Node){func(n *Node) { close(n.stopping) }, func(n *Node) { close(n.stopped) }} {
		n := bare()
		if stop(n); !errors.Is(n.refusal(), ErrStopped) {
			t.Errorf("a proposal after the end: %v", n.refusal())
		}
	}
}

// TestFilesAreWholeOrNotThere: what cannot be written leaves nothing behind, and an error.
func TestFilesAreWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	busy := filepath.Join(dir, "busy")
	if err := os.MkdirAll(filepath.Join(busy, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if durable.Write(busy, []byte("x")) == nil || durable.Write(filepath.Join(dir, "none", "x"), nil) == nil {
		t.Error("what cannot be written is no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	state := filepath.Join(dir, "a", "b")
	d, err := openDirectory(state, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if got, err := os.ReadFile(filepath.Join(state, "version")); string(got) != "{\"format\":1}\n" {
		t.Errorf("the version file has %q, %v", got, err)
	}
	for _, path := range []string{state, filepath.Join(dir, "a"), filepath.Join(state, "log.bolt"),
		filepath.Join(state, "lock")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o77 != 0 {
			t.Errorf("%s may be read by others: %v, %v", path, info.Mode(), err)
		}
	}
	for text, want := range map[string]error{`{"format":1}`: nil, `{"format":0}`: ErrCorrupt, `{"format":-1}`: ErrCorrupt,
		`{"format":2}`: ErrNewer, `x`: ErrCorrupt} {
		if err := os.WriteFile(filepath.Join(state, "version"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkVersion(state); !errors.Is(err, want) {
			t.Errorf("the version %s: %v", text, err)
		}
	}
	odd := filepath.Join(dir, "odd")
	if err := os.MkdirAll(filepath.Join(odd, "version"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checkVersion(odd); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("a version that cannot be read: %v", err)
	}
	if err := markVersion(filepath.Join(dir, "none")); !errors.Is(err, ErrNotWritable) {
		t.Errorf("a version that cannot be written: %v", err)
	}
}

// TestBoundsOfAHello: one line of at most 2048 bytes, alone, within its time.
func TestBoundsOfAHello(t *testing.T) {
	line := func(size int) string {
		return `{"from":"n2#b","time":"` + strings.Repeat("x", size-len(`{"from":"n2#b","time":""}`)-1) + "\"}\n"
	}
	for name, c := range map[string]struct {
		sent string
		want string // of the error
	}{
		"a line": {line(100), ""}, "the longest": {line(2048), ""}, "too long": {line(2049), "buffer full"},
		"more than a line": {line(100) + "x", "sent data after its hello"}, "no JSON": {"x\n", "hello of a peer"},
		"no end": {"{}", "EOF"},
	} {
		x, y := net.Pipe()
		go func() {
			_, _ = io.WriteString(x, c.sent)
			x.Close()
		}()
		h, err := readHello(y)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			err == nil && h.From != "n2#b" {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		y.Close()
	}
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		err   error
		times int
	}{"done": {nil, 2}, "failed": {mine, 1}} {
		d := &deadlines{}
		begin := time.Now()
		err := within(d, time.Minute, func() error { return c.err })
		if !errors.Is(err, c.err) || len(d.at) != c.times || d.at[0].Before(begin.Add(time.Minute)) ||
			d.at[0].After(time.Now().Add(time.Minute)) || c.times == 2 && !d.at[1].IsZero() {
			t.Errorf("%s: %v, deadlines %v", name, err, d.at)
		}
	}
	d := &deadlines{err: mine}
	if err := within(d, time.Minute, func() error { t.Error("it goes on without a bound"); return nil }); err == nil {
		t.Error("a bound that cannot be set is no error")
	}
	for text, e := range map[string]*otherLogError{
		"member n2 has lost its log: it has log c, but the cluster knows it by log b": {"n2#b", "n2#c"},
		"member n3 answered at the address of member n2":                              {"n2#b", "n3#c"},
	} {
		if e.Error() != text {
			t.Errorf("%q, want %q", e.Error(), text)
		}
	}
	for id, want := range map[raft.ServerID]Member{"n2#b": {Name: "n2", Log: "b"}, "n2": {Name: "n2"}, "#b": {Log: "b"},
		"a#b#c": {Name: "a#b", Log: "c"}} {
		if got := memberOf(id, ""); got != want {
			t.Errorf("%s is %+v, want %+v", id, got, want)
		}
	}
}

// deadlines is a connection that remembers its deadlines.
type deadlines struct {
	net.Conn
	at  []time.Time
	err error
}

func (d *deadlines) SetDeadline(at time.Time) error {
	d.at = append(d.at, at)
	return d.err
}

// TestTheLibraryIsToldOurTiming notices a setting that is left to the library.
func TestTheLibraryIsToldOurTiming(t *testing.T) {
	n := silentCluster(t, 3)
	if n.stream.greet.time != "heartbeat 300ms, election 300ms, leader lease 200ms" {
		t.Errorf("the others are told of %q", n.stream.greet.time)
	}
	n.cfg.Heartbeat, n.cfg.Election, n.cfg.LeaderLease = 3*time.Second, 4*time.Second, 2*time.Second
	c := n.raftConfig(raftlog.New(n.log))
	if c.HeartbeatTimeout != 3*time.Second || c.ElectionTimeout != 4*time.Second ||
		c.LeaderLeaseTimeout != 2*time.Second || c.CommitTimeout != 15*time.Millisecond {
		t.Errorf("timeouts %v, %v, %v, %v", c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout, c.CommitTimeout)
	}
	if c.MaxAppendEntries != 64 || c.TrailingLogs != 10240 || c.SnapshotThreshold != 1<<64-1 ||
		c.SnapshotInterval != 365*24*time.Hour || c.ShutdownOnRemove || !c.NoLegacyTelemetry {
		t.Errorf("%d entries in a request, %d trail, snapshots every %v or %d entries, ends when removed %t, telemetry %t",
			c.MaxAppendEntries, c.TrailingLogs, c.SnapshotInterval, c.SnapshotThreshold, c.ShutdownOnRemove,
			!c.NoLegacyTelemetry)
	}
	if c.LocalID != n.Self().serverID() || c.NotifyCh == nil || c.Logger == nil {
		t.Errorf("it is %q", c.LocalID)
	}
	d := DefaultConfig()
	if got := d.timing(); got != "heartbeat 300ms, election 300ms, leader lease 200ms" {
		t.Errorf("by default: %s", got)
	}
	if d.Stall != 30*time.Second || d.Probation != 10*time.Second || d.SnapshotEvery != 8192 {
		t.Errorf("by default: a write may take %v, probation %v, snapshots every %d", d.Stall, d.Probation, d.SnapshotEvery)
	}
	if o := boltOptions(); !o.NoFreelistSync || o.FreelistType != "hashmap" {
		t.Errorf("the log is opened with %+v", o)
	}
	for _, c := range []struct {
		size int64
		want uint64
	}{{1, 10240}, {64 << 20, 64}, {64 << 13, 128}, {64<<13 + 1, 127}} {
		if got := trailing(c.size, 1<<20); got != c.want {
			t.Errorf("of entries of %d bytes %d stay, want %d", c.size, got, c.want)
		}
	}
	for _, c := range []struct {
		size, state int64
		want        bool
	}{{128<<20 - 1, 0, false}, {128 << 20, 0, true}} {
		a := &adapter{every: 10, entries: 1, entriesSize: c.size}
		if got := a.snapshotDue(); got != c.want {
			t.Errorf("after %d bytes a snapshot is due: %t", c.size, got)
		}
	}
	for state, want := range map[int64]bool{1<<20 - 1: true, 1 << 20: false} {
		if got := (&adapter{every: 1, entries: 1, stateSize: state}).snapshotDue(); got != want {
			t.Errorf("a state of %d bytes is written again at once: %t", state, got)
		}
	}
}

// TestTheEntriesOfALog: its chain up to an entry, and which of the leader's entries it has.
func TestTheEntriesOfALog(t *testing.T) {
	g := emptyLog(t)
	g.chain = entry.Chain{Known: true}
	logs := entries(g.chain, 1, "a", "b", "c")
	if err := g.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	if err := g.store.StoreLog(&raft.Log{Index: 4, Term: 4}); err != nil { // of a version without links
		t.Fatal(err)
	}
	sum := func(l *raft.Log) uint64 { return binary.BigEndian.Uint64(l.Extensions[1:]) }
	for index, want := range map[uint64]entry.Chain{0: {Known: true}, 2: {Index: 2, Sum: sum(logs[1]), Known: true}, 4: {},
		9: {}} {
		if got := g.chainAt(index); got != want {
			t.Errorf("the chain up to entry %d: %+v, want %+v", index, got, want)
		}
	}
	other := *logs[1]
	other.Extensions = bytes.Repeat([]byte{7}, entry.LinkSize)
	later := other
	later.Term++
	for name, c := range map[string]struct {
		logs []*raft.Log
		want *raft.Log
	}{"the same": {logs, nil}, "another second": {[]*raft.Log{logs[0], &other, logs[2]}, &other},
		"of another term": {[]*raft.Log{&later}, nil}, "beyond the log": {[]*raft.Log{{Index: 5}, &other}, nil},
		"none": {nil, nil}} {
		if got, same := g.sameEntries(c.logs); got != c.want || same != (c.want == nil) {
			t.Errorf("%s: %v, same %t", name, got, same)
		}
	}
}
