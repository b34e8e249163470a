package consensus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rota-hpc/rota/consensus/entry"
)

// The tests here ask for the state that a member is in after something went wrong, or ended, or began anew.

// TestALeadershipEndsTheOneBefore: two notices of an election in a row, and one of a loss.
func TestALeadershipEndsTheOneBefore(t *testing.T) {
	n := alone(t)
	_, changed := n.currentLeadership()
	n.setLeadership(true)
	first, _ := n.currentLeadership()
	select {
	case <-changed:
	default:
		t.Error("those that wait are not told of a new leadership")
	}
	n.setLeadership(true)
	second, changed := n.currentLeadership()
	if !errors.Is(context.Cause(first.ctx), ErrLeadershipLost) || second == first || second.ctx.Err() != nil {
		t.Errorf("the first leadership ended because of %v, the second of %v", context.Cause(first.ctx), second.ctx.Err())
	}
	<-second.ready
	n.setLeadership(false)
	if r, _ := n.currentLeadership(); r != nil || !errors.Is(context.Cause(second.ctx), ErrLeadershipLost) {
		t.Errorf("after the loss it leads, or the leadership ended because of %v", context.Cause(second.ctx))
	}
	select {
	case <-changed:
	default:
		t.Error("those that wait are not told of the loss")
	}
	n.setLeadership(true)
	if m, err := n.WaitLeader(t.Context()); err != nil || m != n.Self() || !n.HasState() {
		t.Errorf("the leader is %v, %v", m, err)
	}
	if err := n.UntilOther(quick(t), Member{Name: "n1"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another one than the leader leads: %v", err)
	}
	if err := n.UntilOther(t.Context(), Member{Name: "n2"}); err != nil {
		t.Errorf("another one than n2 leads: %v", err)
	}
	if since := time.Since(n.LastContact()); since < 0 || since > time.Minute {
		t.Errorf("a leader has heard of itself %v ago", since)
	}
	var wg sync.WaitGroup
	for range 20 { // share questions
		wg.Go(func() {
			if err := n.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	third, _ := n.currentLeadership()
	n.markStopped()
	if !errors.Is(context.Cause(third.ctx), ErrStopped) {
		t.Errorf("at the end of the member its leadership ended because of %v", context.Cause(third.ctx))
	}
	if err := n.Verify(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("verified after the end: %v", err)
	}
	var not *NotLeaderError
	if err := n.notLeader(); !errors.As(err, &not) || not.Leader != (Member{}) {
		t.Errorf("a member that does not lead names itself: %v", err)
	}
	if pause(quick(t), time.Minute) || !pause(t.Context(), time.Nanosecond) {
		t.Error("a pause does not tell its end from that of its context")
	}
}

// TestProbation: a member that cannot prove its log waits for the other voters, and only so long.
func TestProbation(t *testing.T) {
	n := silentCluster(t, 3)
	cfg := n.cfg
	if n.onProbation() {
		t.Error("a new log is on probation")
	}
	if err := n.Shutdown(); err != nil {
		t.Fatal(err)
	}
	const most = 150 * time.Millisecond
	for name, c := range map[string]struct {
		met   []raft.ServerID
		bound time.Duration
		votes bool // in the end
		said  string
	}{
		"none": {nil, most, true, "unheard=2"}, "one": {[]raft.ServerID{"n1#log"}, most, true, "unheard=1"},
		"both":               {[]raft.ServerID{"n1#log", "n3#log"}, time.Hour, true, "unheard=0"},
		"none, and it stops": {nil, time.Hour, false, "this controller does not vote until"},
	} {
		var mu sync.Mutex
		var text bytes.Buffer
		cfg.Probation, cfg.Logger = c.bound, slog.New(slog.NewTextHandler(locked{&mu, &text}, nil))
		begin := time.Now()
		n, err := Open(cfg, counting{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range c.met {
			n.known.meet(id)
		}
		for c.votes && n.onProbation() && time.Since(begin) < 20*time.Second {
			time.Sleep(time.Millisecond)
		}
		took := time.Since(begin)
		if votes := !n.onProbation(); votes != c.votes || votes && c.bound == most && took < most {
			t.Errorf("it has met %s: it votes %t after %v", name, votes, took)
		}
		if err := n.Shutdown(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		said := text.String()
		mu.Unlock()
		if n.onProbation() == c.votes || !strings.Contains(said, "this controller does not vote until") ||
			!strings.Contains(said, c.said) ||
			strings.Contains(said, "this controller votes") != c.votes {
			t.Errorf("it has met %s, and says\n%s", name, said)
		}
	}
	for name, c := range map[string]struct {
		command any
		refused bool
	}{"a vote": {&raft.RequestVoteRequest{Term: 9}, true}, "a vote to come": {&raft.RequestPreVoteRequest{Term: 9}, true},
		"entries": {&raft.AppendEntriesRequest{}, false}, "a turn": {&raft.TimeoutNowRequest{}, false}} {
		answers := make(chan raft.RPCResponse, 1)
		if got := refuseVotes(raft.RPC{Command: c.command, RespChan: answers}); got != c.refused || len(answers) == 1 != got {
			t.Errorf("%s: refused %t, %d answers", name, got, len(answers))
			continue
		}
		if !c.refused {
			continue
		}
		header := (<-answers).Response.(raft.WithRPCHeader).GetRPCHeader()
		if header.ProtocolVersion != raft.ProtocolVersionMax {
			t.Errorf("%s: the answer has version %d, which peers do not take", name, header.ProtocolVersion)
		}
	}
}

// TestWhichMembersStand for election when the leader's process has ended: voters, in turn, unless they stop.
func TestWhichMembersStand(t *testing.T) {
	n := silentCluster(t, 3)
	term := n.Term()
	n.stand(Member{Name: "n2"}) // it is the one that is gone
	stopping := func(v bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.isStopping = v
	}
	stopping(true)
	n.stand(Member{Name: "n1"})
	stopping(false)
	pause(quick(t), time.Minute) // for an election that must not be
	if n.Term() != term {
		t.Errorf("a member that stops, or is gone, stands in term %d", n.Term())
	}
	begin := time.Now()
	n.stand(Member{Name: "n3"}) // n1 has its turn before
	if took := time.Since(begin); took < n.cfg.Heartbeat/3 {
		t.Errorf("it does not wait for its turn: %v", took)
	}
	for ; n.Term() == term; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("it does not stand")
		}
	}
}

// TestADamagedEntryIsNotApplied, nor anything that follows it.
func TestADamagedEntryIsNotApplied(t *testing.T) {
	l := &list{}
	var op string
	var failure error
	a := &adapter{machine: l, inFlight: func(*raft.Log) *batch { return nil }, due: make(chan struct{}, 1), every: 9,
		fail: func(o string, err error) { op, failure = o, err }}
	goesOn := false
	done := make(chan struct{})
	good := new(entry.Packer).Encode([][]byte{[]byte("a"), []byte("b")})
	go func() {
		defer close(done)
		results := a.ApplyBatch([]*raft.Log{{Index: 1, Type: raft.LogNoop}, {Index: 2, Type: raft.LogCommand, Data: good}})
		if len(results) != 2 || results[0] != nil || len(results[1].([]any)) != 2 || a.applied.Load() != 2 {
			t.Errorf("results %v, applied %d", results, a.applied.Load())
		}
		if a.entries != 1 || a.entriesSize != int64(len(good)) {
			t.Errorf("it counts %d entries of %d bytes", a.entries, a.entriesSize)
		}
		bad := bytes.Clone(good)
		bad[len(bad)-1]++
		a.ApplyBatch([]*raft.Log{{Index: 3, Type: raft.LogCommand, Data: bad}, {Index: 4, Type: raft.LogCommand, Data: good}})
		goesOn = true
	}()
	<-done
	if goesOn || op != "apply entry 3" || !errors.Is(failure, ErrCorrupt) || a.applied.Load() != 2 || len(l.all) != 2 {
		t.Errorf("it goes on %t, fails at %q with %v, applied %d, %v", goesOn, op, failure, a.applied.Load(), l.all)
	}
	func() {
		defer func() {
			if p := recover(); p == nil || !strings.Contains(p.(string), "0 results for 2 proposals") {
				t.Errorf("a machine without results: %v", p)
			}
		}()
		(&adapter{machine: mute{}}).apply(1, [][]byte{nil, nil})
	}()
	mine := errors.New("mine")
	a = &adapter{machine: &text{err: mine}}
	if _, err := a.Snapshot(); !errors.Is(err, mine) || !strings.Contains(err.Error(), "take snapshot") {
		t.Errorf("a state that cannot be fixed: %v", err)
	}
}

// mute is a machine without results.
type mute struct{ counting }

func (mute) Apply(uint64, [][]byte) []any { return nil }

// TestWhatARestoreCounts: everything anew after one that succeeds, nothing after one that fails.
func TestWhatARestoreCounts(t *testing.T) {
	state := func() io.ReadCloser {
		var b bytes.Buffer
		s := &snapshot{write: func(w io.Writer) error { _, err := io.WriteString(w, "12345"); return err }, applied: 30,
			recordSize: func(int64) {}}
		if err := s.writeTo(&b); err != nil {
			t.Fatal(err)
		}
		return io.NopCloser(&b)
	}
	m := &text{err: errors.New("mine")}
	a := &adapter{machine: m, entries: 7, entriesSize: 70, stateSize: 700}
	a.applied.Store(20)
	if err := a.Restore(state()); !errors.Is(err, m.err) || !errors.Is(a.lastRestoreError(), m.err) ||
		a.applied.Load() != 20 || a.entries != 7 || a.entriesSize != 70 || a.stateSize != 700 ||
		!strings.Contains(err.Error(), "snapshot at entry 30") {
		t.Errorf("after a restore that failed: %v, %d applied, %d entries of %d bytes, state of %d", err, a.applied.Load(),
			a.entries, a.entriesSize, a.stateSize)
	}
	m.err = nil
	if err := a.Restore(state()); err != nil || a.lastRestoreError() != nil || a.applied.Load() != 30 || a.entries != 0 ||
		a.entriesSize != 0 || a.stateSize != 5 {
		t.Errorf("after a restore: %v, %v, %d applied, %d entries of %d bytes, state of %d", err, a.lastRestoreError(),
			a.applied.Load(), a.entries, a.entriesSize, a.stateSize)
	}
	a.machine, a.entries, a.entriesSize = counting{}, 7, 70
	s, err := a.Snapshot()
	if err != nil || s.(*snapshot).applied != 30 || a.entries != 0 || a.entriesSize != 0 {
		t.Errorf("after a snapshot: %+v, %v, %d entries of %d bytes", s, err, a.entries, a.entriesSize)
	}
	if s.(*snapshot).recordSize(9); a.stateSize != 9 {
		t.Errorf("the state has %d bytes", a.stateSize)
	}
}

// TestASnapshotThatFailsIsSaid, and the member goes on.
func TestASnapshotThatFailsIsSaid(t *testing.T) {
	var mu sync.Mutex
	var said bytes.Buffer
	cfg := DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr, cfg.SnapshotEvery = "n1", filepath.Join(t.TempDir(), "raft"), "127.0.0.1:0", 2
	cfg.Logger = slog.New(slog.NewTextHandler(locked{&mu, &said}, nil))
	n, err := Open(cfg, &text{err: errors.New("no room for it")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Shutdown() })
	if err := n.Bootstrap([]Member{n.Self()}); err != nil {
		t.Fatal(err)
	}
	proposeAll(t, n, "a", "b", "c")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		mu.Lock()
		text := said.String()
		mu.Unlock()
		if strings.Contains(text, "snapshot failed") && strings.Contains(text, "no room for it") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a snapshot that failed is not reported:\n%s", text)
		}
	}
	if err := n.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "snapshot: ") {
		t.Errorf("a snapshot that fails: %v", err)
	}
	proposeAll(t, n, "d")
}

// locked writes under a lock.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// TestTwoSnapshotsAreKept, the newest ones, and a snapshot with nothing new is no error.
func TestTwoSnapshotsAreKept(t *testing.T) {
	n := alone(t)
	for range 4 {
		proposeAll(t, n, "x")
		if err := n.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	metas, err := readMetas(filepath.Join(n.cfg.Dir, snapshotsDir))
	if err != nil || len(metas) != 2 || metas[0].Index >= metas[1].Index || metas[1].Index < n.Applied()-1 {
		t.Errorf("%d snapshots of entry %d, %v", len(metas), n.Applied(), err)
	}
	if n.dir.promises.now().Last < metas[1].Index {
		t.Errorf("it has promised %v", n.dir.promises.now())
	}
	if err := n.Snapshot(t.Context()); err != nil {
		t.Errorf("with nothing new: %v", err)
	}
}

// TestTheLogOfAClusterOfOne has its entry and its term in every place that a start compares.
func TestTheLogOfAClusterOfOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	if err := os.Mkdir(dir, 0o700); err != nil { // empty, which is as good as missing
		t.Fatal(err)
	}
	self := Member{Name: "n1", Addr: "127.0.0.1:7"}
	write := func(w io.Writer) error { return json.NewEncoder(w).Encode([]string{"x"}) }
	if err := NewAlone(dir, self, 41, 6, write); err != nil {
		t.Fatal(err)
	}
	a, err := OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	meta := a.snapshots[0]
	term, err := a.log.GetUint64(termKey)
	state, err2 := os.Open(filepath.Join(dir, snapshotsDir, meta.ID, "state.bin"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	h, err := readHeader(state)
	if err != nil || h.Applied != 42 || meta.Index != 42 || meta.ConfigurationIndex != 42 || meta.Term != 7 || term != 7 {
		t.Errorf("state at entry %d, %v; snapshot at entry %d, members at %d, term %d; log in term %d", h.Applied, err,
			meta.Index, meta.ConfigurationIndex, meta.Term, term)
	}
	// The log knows of a vote in a later term, or its entries do.
	for _, voted := range []uint64{3, 7, 19} {
		b := *a
		b.log = aLog(t, voted)
		if got, err := b.LastTerm(); err != nil || got != max(7, voted) {
			t.Errorf("it has voted in term %d, the snapshot is of term 7: %d, %v", voted, got, err)
		}
		b.snapshots = nil
		if got, err := b.LastTerm(); err != nil || got != voted || b.LastIndex() != 0 {
			t.Errorf("it has voted in term %d, without a snapshot: %d, %v, entry %d", voted, got, err, b.LastIndex())
		}
	}
	failing := errors.New("no room")
	err = NewAlone(filepath.Join(t.TempDir(), "raft"), self, 41, 6, func(io.Writer) error { return failing })
	if !errors.Is(err, failing) {
		t.Errorf("a state that cannot be written: %v", err)
	}
	if err := NewAlone(filepath.Join(dir, versionFile, "x"), self, 1, 1, write); !errors.Is(err, ErrNotWritable) {
		t.Errorf("below a file: %v", err)
	}
}

// aLog is an empty log in some term.
func aLog(t *testing.T, term uint64) *raftboltdb.BoltStore {
	t.Helper()
	d, err := openDirectory(filepath.Join(t.TempDir(), "raft"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	if err := d.log.SetUint64(termKey, term); err != nil {
		t.Fatal(err)
	}
	return d.log
}
