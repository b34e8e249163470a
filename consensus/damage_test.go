package consensus

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/entry"
	"github.com/rota-hpc/rota/consensus/mark"
	"github.com/rota-hpc/rota/consensus/raftlog"
	"go.etcd.io/bbolt"
)

// cutShort returns memory of a file that was cut short afterwards: reading it is a fault.
func cutShort(t *testing.T) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "mapped"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 16); err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, 1<<16, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(b) })
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDamageBelowTheLogIsAnError: what the log's library makes of damaged pages is a panic or a fault.
func TestDamageBelowTheLogIsAnError(t *testing.T) {
	mapped := cutShort(t)
	a := &Archive{dir: "d"}
	for by, read := range map[string]func(func() error) error{
		"a member": func(f func() error) error { return sound("d/log.bolt", f) },
		"a reader": func(f func() error) error { return a.sound("its bounds", f) },
	} {
		for what, f := range map[string]func() error{
			"a panic":  func() error { panic("page 3 is torn") },
			"a fault":  func() error { return errors.New(string(mapped[100:110])) },
			"an error": func() error { return ErrCorrupt },
		} {
			if err := read(f); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "d/log.bolt") ||
				what == "a panic" && !strings.Contains(err.Error(), "page 3 is torn") {
				t.Errorf("%s meets %s: %v", by, what, err)
			}
		}
		if err := read(func() error { return nil }); err != nil {
			t.Errorf("%s meets no damage: %v", by, err)
		}
	}
	if err := a.sound("its bounds", func() error { return io.EOF }); !strings.Contains(err.Error(), "its bounds: EOF") {
		t.Errorf("an error does not say where: %v", err)
	}
	path := filepath.Join(t.TempDir(), "log.bolt")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<14), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a log of another kind: %v", err)
	}
}

// TestEntriesThatAreMissingOrMisplaced damage an archive: a replay stops there.
func TestEntriesThatAreMissingOrMisplaced(t *testing.T) {
	dir := written(t)
	change := func(f func(b *bbolt.Bucket) error) {
		t.Helper()
		db, err := bbolt.Open(filepath.Join(dir, logFile), 0o600, boltOptions())
		if err == nil {
			err = errors.Join(db.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket([]byte("logs"))) }), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func() (applied int, err error) {
		a, err := OpenArchive(dir)
		if err != nil {
			return 0, err
		}
		defer a.Close()
		return applied, a.Entries(Start{}, func(uint64, [][]byte) error { applied++; return nil })
	}
	key := func(i byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, i} }
	if applied, err := read(); applied != 6 || err != nil {
		t.Fatalf("undamaged: %d entries, %v", applied, err)
	}
	var fifth []byte
	change(func(b *bbolt.Bucket) error {
		fifth = bytes.Clone(b.Get(key(5)))
		return b.Put(key(5), b.Get(key(4)))
	})
	if _, err := read(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "entry 4 is stored in its place") ||
		!strings.Contains(err.Error(), "entry 5 of ") {
		t.Errorf("an entry in the place of another: %v", err)
	}
	change(func(b *bbolt.Bucket) error { return b.Put(key(5), []byte("x")) })
	if _, err := read(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry that cannot be read: %v", err)
	}
	change(func(b *bbolt.Bucket) error { return b.Delete(key(5)) })
	if _, err := read(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "it is missing") {
		t.Errorf("an entry that is missing: %v", err)
	}
	at := bytes.Index(fifth, []byte("\x01")) // of the entry's content
	for ; at < len(fifth); at++ {
		other := bytes.Clone(fifth)
		other[at] ^= 0x20
		change(func(b *bbolt.Bucket) error { return b.Put(key(5), other) })
		if _, err := read(); err != nil && strings.Contains(err.Error(), "checksum does not match") {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "entry 5 of ") {
				t.Errorf("an entry whose content is damaged: %v", err)
			}
			return
		}
	}
	t.Error("no damage of an entry's content is noticed")
}

// onADisk returns a guard of an empty log, what it fails with, and calls f on a goroutine as the library does.
func onADisk(t *testing.T) (g *guard, failures *[]string, call func(f func()) (returns bool)) {
	t.Helper()
	d, err := openDirectory(filepath.Join(t.TempDir(), "raft"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	var mu sync.Mutex
	failures = new([]string)
	g = &guard{store: d.log, promises: d.promises, applied: func() uint64 { return 1 }, stall: never,
		chain: entry.Chain{Known: true}, fail: func(op string, err error) {
			mu.Lock()
			defer mu.Unlock()
			*failures = append(*failures, op+": "+err.Error())
		}, differs: func(l *raft.Log) { *failures = append(*failures, "differs") },
		beyond: func(uint64) { *failures = append(*failures, "beyond") }}
	return g, failures, func(f func()) bool {
		returns := false
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
			returns = true
		}()
		<-done
		mu.Lock()
		defer mu.Unlock()
		return returns
	}
}

// TestAfterAWriteThatFailedNothingIsWritten: the goroutine that met it ends, and so do later ones.
func TestAfterAWriteThatFailedNothingIsWritten(t *testing.T) {
	g, failures, call := onADisk(t)
	calls := 0
	good, bad := func() error { calls++; return nil }, func() error { calls++; return syscall.EIO }
	if !call(func() { g.write("one", good) }) || g.dead.Load() || len(*failures) > 0 {
		t.Errorf("a write that succeeds: %v", *failures)
	}
	if call(func() { g.write("two", bad) }) || !g.dead.Load() {
		t.Error("a write that failed returns, or the log is used further")
	}
	if call(func() { g.write("three", good) }) || calls != 2 {
		t.Errorf("%d writes reach the disk", calls)
	}
	if want := "two: input/output error three: log is closed"; strings.Join(*failures, " ") != want {
		t.Errorf("it fails with %q, want %q", *failures, want)
	}

	g, _, call = onADisk(t)
	g.stall = 20 * time.Millisecond
	release := make(chan struct{})
	stalled := make(chan string, 1)
	g.fail = func(op string, err error) {
		if errors.Is(err, errStalled) {
			stalled <- op + ": " + err.Error()
		}
	}
	go func() {
		select {
		case text := <-stalled:
			if text != "four: the disk does not answer: a write takes more than 20ms" {
				t.Error(text)
			}
		case <-time.After(10 * time.Second):
			t.Error("a write that hangs is not reported")
		}
		close(release)
	}()
	if !call(func() { g.write("four", func() error { <-release; return nil }) }) {
		t.Error("a write that was slow is not taken for done")
	}
	g.stall = 30 * time.Millisecond
	if !call(func() { g.write("five", good) }) {
		t.Error("a write does not return")
	}
	select {
	case text := <-stalled:
		t.Errorf("after a write that was in time: %s", text)
	case <-time.After(60 * time.Millisecond):
	}

	g, failures, call = onADisk(t)
	logs := entries(entry.Chain{Known: true}, 1, "a", "b", "c")
	if !call(func() { _ = g.StoreLogs(logs) }) || g.promises.lastCommit() != 1 || g.promises.now().Last != 3 ||
		g.chain.Index != 3 {
		t.Errorf("it has promised %v, commit %d, %v", g.promises.now(), g.promises.lastCommit(), *failures)
	}
	if !call(func() { _ = g.StoreLogs(nil) }) || g.promises.now().Last != 3 {
		t.Error("no entries are a failure")
	}
	wrong := &raft.Log{Index: 4, Term: 4, Type: raft.LogNoop, Extensions: make([]byte, entry.LinkSize)}
	if call(func() { _ = g.StoreLog(wrong) }) || !g.dead.Load() || strings.Join(*failures, " ") != "differs" {
		t.Errorf("an entry that does not follow: %q", *failures)
	}
	if last, _ := g.store.LastIndex(); last != 3 {
		t.Errorf("the log ends at entry %d", last)
	}
	_ = g.store.Close()
	g, failures, call = onADisk(t)
	_ = g.store.Close()
	var l raft.Log
	for op, f := range map[string]func(){
		"read the log":  func() { _ = g.GetLog(1, &l) },
		"read the vote": func() { _, _ = g.Get(voteKey) },
		"read the term": func() { _, _ = g.GetUint64(termKey) },
		"read the log ": func() { _, _ = g.FirstIndex() }, "read the log  ": func() { _, _ = g.LastIndex() },
	} {
		*failures = nil
		if g.dead.Store(false); call(f) || len(*failures) != 1 || !strings.HasPrefix((*failures)[0], strings.TrimSpace(op)) {
			t.Errorf("%s fails: %q", op, *failures)
		}
	}
	for op, f := range map[string]func(){
		"write the log":   func() { _ = g.store.StoreLog(&l); _ = g.StoreLog(&raft.Log{Index: 1}) },
		"write the vote":  func() { _ = g.Set(voteKey, nil) },
		"write the term":  func() { _ = g.SetUint64(termKey, 9) },
		"shorten the log": func() { g.replace(5) },
	} {
		*failures = nil
		if g.dead.Store(false); call(f) || len(*failures) != 1 || !strings.HasPrefix((*failures)[0], op) {
			t.Errorf("%s fails: %q", op, *failures)
		}
	}
	if got := g.promises.now(); got.Term == 9 {
		t.Errorf("a term that was not written is promised: %v", got)
	}
}

// TestUnfinishedWorkOfACrashIsRemoved at the next start: half of a log, of a snapshot, of a file.
func TestUnfinishedWorkOfACrashIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	unfinished := filepath.Join(dir, snapshotsDir, "1-2-3.tmp")
	finished := filepath.Join(dir, snapshotsDir, "1-2-4")
	half := filepath.Join(dir, logFile+".new")
	err := errors.Join(os.MkdirAll(unfinished, 0o700), os.MkdirAll(finished, 0o700), os.MkdirAll(half, 0o700),
		os.WriteFile(filepath.Join(half, "x"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDirectory(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{unfinished: false, half: false, finished: true,
		filepath.Join(dir, logFile): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	f, err := lockDirectory(dir)
	if err != nil {
		t.Fatal("a directory that was given back is locked:", err)
	}
	f.Close()
	copied := &Archive{dir: t.TempDir()}
	if err := copied.takeLock(); err != nil || copied.lock != nil || copied.Close() != nil {
		t.Errorf("a copy without a lock file: %v", err)
	}
}

// TestAStreamThatEndsClosesItsConnections, those that peers began too, and forgets those that end before.
func TestAStreamThatEndsClosesItsConnections(t *testing.T) {
	s, err := listen(Config{Addr: "127.0.0.1:0"}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	s.greet = &greeter{self: "n1#a", known: newWitness(), behind: func(raft.ServerID, mark.Mark) error { return nil },
		others: func(raft.ServerID, string) {}}
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	go func() { // answers hellos, as the library's reading does
		for c := range accepted {
			go func() { _, _ = c.Read(make([]byte, 1)) }()
		}
	}()
	target := raft.ServerAddress("n1#a/") + raft.ServerAddress(s.Addr().String())
	first, err := s.Dial(target, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Dial(target, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns)
	}
	if got := count(); got != 4 {
		t.Errorf("it knows %d connections, want both ends of two", got)
	}
	if first.Close(); count() != 3 {
		t.Errorf("it knows %d connections after one was closed", count())
	}
	if _, err := s.Dial("n9#z/"+raft.ServerAddress(s.Addr().String()), 5*time.Second); err == nil {
		t.Error("another member answers, and is taken")
	}
	if err := s.Close(); err != nil || count() != 0 {
		t.Errorf("closed: %v, it knows %d connections", err, count())
	}
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is left open")
	}
	if _, err := s.Dial(target, time.Second); err == nil {
		t.Error("it dials after its end")
	}
	if err := listenError("h:1", os.ErrPermission); errors.Is(err, ErrPortInUse) || !strings.Contains(err.Error(), "h:1") {
		t.Errorf("an address that is not allowed: %v", err)
	}
}

// TestTheLibraryLogs at the levels of an operator, and with its formats carried out.
func TestTheLibraryLogs(t *testing.T) {
	var text bytes.Buffer
	log := raftlog.New(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.Error("e")
	log.Warn("w", "since", hclog.Fmt("%d of %d", 3, 5), "plain", 7)
	log.Info("i")
	log.Debug("d", "empty", hclog.Format{})
	for _, want := range []string{`ERROR msg="raft: e"`, `WARN msg="raft: w" since="3 of 5" plain=7`,
		`DEBUG msg="raft: i"`, `DEBUG msg="raft: d"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in\n%s", want, text.String())
		}
	}
}

// TestRequestsThatCrossTheEnd are answered: the peer that asks must not wait for its timeout.
func TestRequestsThatCrossTheEnd(t *testing.T) {
	silent := false
	n := bare()
	n.machine, n.dir, n.guard = &adapter{}, &directory{promises: &promises{}}, &guard{promises: &promises{}}
	n.trans, _ = transport(t, &silent, nil)
	b, _ := transport(t, &silent, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.takeRequests()
	}()
	answered := make(chan error, 1)
	go func() {
		answered <- b.TimeoutNow("n1#a", n.trans.LocalAddr(), &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
	}()
	time.AfterFunc(50*time.Millisecond, func() { close(n.stopped) })
	if err := <-answered; err == nil || !strings.Contains(err.Error(), raft.ErrRaftShutdown.Error()) {
		t.Errorf("a request that is not taken: %v", err)
	}
	<-ended
	var asked atomic.Int64
	n.stopped = make(chan struct{})
	go n.takeRequests()
	go func() {
		for rpc := range n.trans.Consumer() {
			asked.Add(1)
			rpc.Respond(&raft.TimeoutNowResponse{}, nil)
		}
	}()
	err := b.TimeoutNow("n1#a", n.trans.LocalAddr(), &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
	if err != nil || asked.Load() != 1 {
		t.Errorf("a request is taken %d times: %v", asked.Load(), err)
	}
	close(n.stopped)
}
