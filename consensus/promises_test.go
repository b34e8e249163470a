package consensus

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/entry"
	"github.com/rota-hpc/rota/consensus/mark"
)

// recorded returns promises of a log with this record, and what they have forgotten.
func recorded(t *testing.T, path, log string, made mark.Mark) (*promises, *mark.Mark) {
	t.Helper()
	p := &promises{log: log, made: made}
	forgotten, err := p.openRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close() })
	return p, forgotten
}

func TestARecordShowsWhatALogHasForgotten(t *testing.T) {
	const id, other = "0123456789abcdef", "fedcba9876543210"
	path := filepath.Join(t.TempDir(), "record")
	p, forgotten := recorded(t, path, id, mark.Mark{Term: 1})
	if p.recorded || forgotten != nil {
		t.Errorf("without a record: recorded %t, forgotten %v", p.recorded, forgotten)
	}
	p.commit(7)
	p.raise(mark.Mark{Term: 2, Vote: 2})
	p.entry(2, 9)
	p.commit(8) // is saved with the next
	all := mark.Mark{Term: 2, Vote: 2, LastTerm: 2, Last: 9}
	if got := p.now(); got != all {
		t.Errorf("it has promised %v", got)
	}
	for _, made := range []mark.Mark{
		all, {Term: 3, Vote: 2, LastTerm: 2, Last: 9}, {Term: 2, Vote: 2, LastTerm: 3, Last: 1},
	} {
		if p, forgotten := recorded(t, path+"-", id, made); p.recorded || forgotten != nil {
			t.Errorf("beside another file: %v", forgotten)
		}
		copyFile(t, path, path+"-")
		if p, forgotten := recorded(t, path+"-", id, made); !p.recorded || forgotten != nil || p.lastCommit() != 7 {
			t.Errorf("a log at %v: recorded %t, forgotten %v, commit %d", made, p.recorded, forgotten, p.lastCommit())
		}
		os.Remove(path + "-")
	}
	for _, made := range []mark.Mark{
		{}, {Term: 1, Vote: 2, LastTerm: 2, Last: 9}, {Term: 2, Vote: 1, LastTerm: 2, Last: 9},
		{Term: 2, Vote: 2, LastTerm: 2, Last: 8}, {Term: 2, Vote: 2, LastTerm: 1, Last: 99},
	} {
		copyFile(t, path, path+"-")
		if p, forgotten := recorded(t, path+"-", id, made); p.recorded || forgotten == nil || *forgotten != all {
			t.Errorf("a log at %v: recorded %t, forgotten %v", made, p.recorded, forgotten)
		}
	}
	copyFile(t, path, path+"-")
	if p, forgotten := recorded(t, path+"-", other, mark.Mark{}); p.recorded || forgotten != nil {
		t.Errorf("another log: recorded %t, forgotten %v", p.recorded, forgotten)
	}
	for _, i := range []int{0, 20, mark.RecordSize - 1} { // damaged
		copyFile(t, path, path+"-")
		b, _ := os.ReadFile(path + "-")
		b[i] ^= 1
		if err := os.WriteFile(path+"-", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, forgotten := recorded(t, path+"-", id, mark.Mark{}); p.recorded || forgotten != nil {
			t.Errorf("byte %d of it is damaged: recorded %t, forgotten %v", i, p.recorded, forgotten)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What a log shows after its end was replaced, or its entries are in a snapshot only.
func TestPromisesAreReadFromTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	open := func() (*directory, *guard) {
		d, err := openDirectory(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		return d, &guard{store: d.log, promises: d.promises, applied: func() uint64 { return 2 }, stall: never,
			chain: entry.Chain{Known: true}, fail: func(op string, err error) { t.Errorf("%s: %v", op, err) },
			differs: func(l *raft.Log) { t.Errorf("entry %d does not follow", l.Index) },
			beyond:  func(uint64) { t.Error("beyond") }}
	}
	d, g := open()
	if !d.fresh || len(d.promises.log) != 16 {
		t.Errorf("a new log %q, fresh %t", d.promises.log, d.fresh)
	}
	id := d.promises.log
	for _, err := range []error{g.SetUint64(termKey, 3), g.SetUint64(voteKey, 2), g.SetUint64([]byte("other"), 99),
		g.StoreLogs(entries(entry.Chain{Known: true}, 1, "a", "b", "c", "d")), g.DeleteRange(1, 1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.log.Get(cutKey); err == nil {
		t.Error("a log that was shortened at its begin has a cut")
	}
	if err := g.DeleteRange(3, 4); err != nil {
		t.Fatal(err)
	}
	want := mark.Mark{Term: 3, Vote: 2, LastTerm: 4, Last: 4}
	if got := d.promises.now(); got != want {
		t.Errorf("it has promised %v", got)
	}
	if g.chain.Index != 2 || !g.chain.Known {
		t.Errorf("the chain ends at %+v", g.chain)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	d, _ = open()
	defer d.close()
	if got := d.promises.now(); got != want || d.fresh || d.promises.log != id {
		t.Errorf("opened again: log %q, fresh %t, %v", d.promises.log, d.fresh, got)
	}
}

// A leader that wants to replace a committed entry is refused, the next one is not.
func TestCommittedEntriesAreNotReplaced(t *testing.T) {
	for _, test := range []struct{ applied, recorded, first, refused uint64 }{
		{2, 0, 2, 2}, {2, 0, 3, 0}, {0, 2, 2, 2}, {0, 2, 3, 0}, {2, 0, 1, 1},
	} {
		d, err := openDirectory(filepath.Join(t.TempDir(), "raft"), "")
		if err != nil {
			t.Fatal(err)
		}
		var refused uint64
		g := &guard{store: d.log, promises: d.promises, applied: func() uint64 { return test.applied }, stall: never,
			chain: entry.Chain{Known: true}, fail: func(op string, err error) { t.Errorf("%s: %v", op, err) },
			beyond: func(first uint64) { refused = first }}
		d.promises.commit(test.recorded)
		done := make(chan struct{})
		go func() { // ends with what it refuses
			defer close(done)
			_ = g.StoreLogs(entries(entry.Chain{Known: true}, 1, "a", "b", "c", "d"))
			_ = g.DeleteRange(test.first, 4)
		}()
		<-done
		end, _ := d.log.LastIndex()
		if kept := test.refused > 0; refused != test.refused || kept != (end == 4) || kept != g.dead.Load() {
			t.Errorf("%+v: refused %d, the log ends at %d", test, refused, end)
		}
		d.close()
	}
}

// shake has two members say hello, of which the second one has promised made, and returns the errors
// of both.
func shake(t *testing.T, to raft.ServerID, a, b *greeter) (caller, called error) {
	t.Helper()
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	answered := make(chan error, 1)
	go func() { answered <- b.answer(y) }()
	caller = a.call(x, to, time.Minute)
	return caller, <-answered
}

func TestHello(t *testing.T) {
	judge := func(own mark.Mark) func(raft.ServerID, mark.Mark) error {
		return func(_ raft.ServerID, seen mark.Mark) error {
			if own.Covers(seen) {
				return nil
			}
			return ErrRolledBack
		}
	}
	var warned []raft.ServerID
	make2 := func() (a, b *greeter) {
		others := func(peer raft.ServerID, _ string) { warned = append(warned, peer) }
		a = &greeter{self: "n1#a", known: newWitness(), behind: judge(mark.Mark{Term: 5}), others: others}
		b = &greeter{self: "n2#b", known: newWitness(), behind: judge(mark.Mark{Term: 5}), others: others}
		return a, b
	}
	a, b := make2()
	b.time = "slow"
	if caller, called := shake(t, "n2#b", a, b); caller != nil || called != nil ||
		!slices.Equal(warned, []raft.ServerID{"n1#a", "n2#b"}) {
		t.Errorf("with other timeouts: %v, %v, %v", caller, called, warned)
	}
	warned = nil
	a, b = make2()
	if caller, called := shake(t, "n2#b", a, b); caller != nil || called != nil || !a.known.hasMet("n2#b") ||
		!b.known.hasMet("n1#a") {
		t.Errorf("two that agree: %v, %v", caller, called)
	}
	a, b = make2()
	a.known.note("n2#b", mark.Mark{Term: 6})
	if caller, called := shake(t, "n2#b", a, b); caller == nil || !strings.Contains(caller.Error(), "takes no part") ||
		!errors.Is(called, ErrRolledBack) || a.known.hasMet("n2#b") || b.known.hasMet("n1#a") {
		t.Errorf("one that is behind is called: %v, %v", caller, called)
	}
	a, b = make2()
	b.known.note("n1#a", mark.Mark{Term: 6})
	if caller, called := shake(t, "n2#b", a, b); !errors.Is(caller, ErrRolledBack) || called != nil {
		t.Errorf("one that is behind calls: %v, %v", caller, called)
	}
	a, b = make2()
	a.known.note("n2#old", mark.Mark{Term: 6}) // of the log that was lost
	var other *otherLogError
	caller, called := shake(t, "n2#old", a, b)
	if !errors.As(caller, &other) || !errors.As(called, &other) || a.known.hasMet("n2#b") || b.known.hasMet("n1#a") {
		t.Errorf("another log answers: %v, %v", caller, called)
	}
	if log, lost := a.known.otherLog(Member{Name: "n2", Log: "old"}); !lost || log != "b" {
		t.Errorf("n2 has lost its log: %q, %t", log, lost)
	}
	if _, lost := a.known.otherLog(Member{Name: "n2", Log: "b"}); lost {
		t.Error("the log that answers is lost")
	}
	if caller, _ := shake(t, "n2#b", a, b); caller != nil || len(warned) > 0 {
		t.Error(caller, warned)
	}
	if _, lost := a.known.otherLog(Member{Name: "n2", Log: "old"}); lost {
		t.Error("n2 is known by its new log, and lost still")
	}
	if _, called := shake(t, "n3#c", a, b); !errors.As(called, &other) ||
		!strings.Contains(other.Error(), "answered at the address of") {
		t.Errorf("another member answers: %v", called)
	}
	if _, lost := a.known.otherLog(Member{Name: "n3", Log: "c"}); lost {
		t.Error("n3 has lost its log because n2 answers at its address")
	}
}

// What messages show of a member, and what they do not.
func TestWhatMessagesShow(t *testing.T) {
	const id = "n2#b"
	log := func(term, index uint64) *raft.Log { return &raft.Log{Term: term, Index: index} }
	for _, test := range []struct {
		a    raft.AppendEntriesRequest
		want mark.Mark
	}{
		{raft.AppendEntriesRequest{Term: 4}, mark.Mark{Term: 4}},
		{raft.AppendEntriesRequest{Term: 4, PrevLogTerm: 2, PrevLogEntry: 8}, mark.Mark{Term: 4, LastTerm: 2, Last: 8}},
		{raft.AppendEntriesRequest{Term: 4, PrevLogTerm: 2, PrevLogEntry: 8, Entries: []*raft.Log{log(3, 9), log(4, 10)}},
			mark.Mark{Term: 4, LastTerm: 4, Last: 10}},
	} {
		w := newWitness()
		if w.noteAppend(id, &test.a); w.of(id) != test.want || w.of("n3#c") != (mark.Mark{}) {
			t.Errorf("%+v shows %v", test.a, w.of(id))
		}
	}
	silent := false
	trans := serialTransport{known: newWitness(), silent: func() bool { return silent }}
	header := raft.RPCHeader{ID: []byte(id)}
	ask := func(command any) (passed bool, answer any) {
		answers := make(chan raft.RPCResponse, 1)
		passed = trans.take(raft.RPC{Command: command, RespChan: answers})
		select {
		case r := <-answers:
			return passed, r.Response
		default:
			return passed, nil
		}
	}
	vote := &raft.RequestVoteRequest{RPCHeader: header, Term: 7, LastLogTerm: 6, LastLogIndex: 5}
	if passed, answer := ask(vote); !passed || answer != nil ||
		trans.known.of(id) != (mark.Mark{Term: 7, LastTerm: 6, Last: 5}) {
		t.Errorf("a vote is asked for: passed %t, answer %v, %v", passed, answer, trans.known.of(id))
	}
	silent = true
	if passed, answer := ask(vote); passed || answer.(*raft.RequestVoteResponse).Granted {
		t.Errorf("on probation: passed %t, answer %+v", passed, answer)
	}
	if passed, answer := ask(&raft.RequestPreVoteRequest{}); passed || answer.(*raft.RequestPreVoteResponse).Granted {
		t.Errorf("on probation: passed %t, answer %+v", passed, answer)
	}
	if passed, _ := ask(&raft.AppendEntriesRequest{RPCHeader: header, Term: 8}); !passed || trans.known.of(id).Term != 8 {
		t.Error("on probation it takes no entries")
	}
}

func TestHowMuchOfTheLogStays(t *testing.T) {
	for _, test := range []struct {
		size  int64
		every int
		want  uint64
	}{
		{0, 1 << 20, trailingMax}, {1, 8192, 8192}, {1, 1, trailingMin}, {trailingBytes, 8192, trailingMin},
		{trailingBytes / 100, 8192, 100}, {trailingBytes/100 + 1, 8192, 99}, {trailingBytes / 64, 8192, 64},
	} {
		if got := trailing(test.size, test.every); got != test.want {
			t.Errorf("entries of %d bytes, snapshots every %d: %d stay, want %d", test.size, test.every, got, test.want)
		}
	}
}

func TestWhenASnapshotIsDue(t *testing.T) {
	for _, test := range []struct {
		entries     int
		size, state int64
		want        bool
	}{
		{9, snapshotBytes - 1, 0, false}, {10, 0, 0, true}, {9, snapshotBytes, 0, true}, {10, 0, smallState - 1, true},
		{10, smallState - 1, smallState, false}, {10, smallState, smallState, true},
		{9, snapshotBytes, snapshotBytes + 1, false}, {9, snapshotBytes, snapshotBytes, true},
	} {
		a := &adapter{every: 10, entries: test.entries, entriesSize: test.size, stateSize: test.state,
			due: make(chan struct{}, 1)}
		if got := a.snapshotDue(); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
