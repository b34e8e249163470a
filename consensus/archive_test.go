package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// list is a machine whose state is what it was given.
type list struct{ all []string }

func (l *list) Apply(_ uint64, proposals [][]byte) []any {
	for _, p := range proposals {
		l.all = append(l.all, string(p))
	}
	return make([]any, len(proposals))
}

func (l *list) Snapshot() (func(io.Writer) error, error) {
	all := slices.Clone(l.all)
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(all) }, nil
}

func (l *list) Restore(r io.Reader) error { return json.NewDecoder(r).Decode(&l.all) }

// openAlone opens the only member of the cluster in dir, which leads when this returns.
func openAlone(t *testing.T, dir string) (*Node, *list) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "n1", dir, "127.0.0.1:0"
	l := &list{}
	n, err := Open(cfg, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Shutdown() })
	return n, l
}

func proposeAll(t *testing.T, n *Node, texts ...string) {
	t.Helper()
	if _, err := n.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if _, _, err := n.Propose(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// written returns the directory of a member that has proposed a to f, with a snapshot behind c.
func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "raft")
	n, _ := openAlone(t, dir)
	if err := n.Bootstrap([]Member{n.Self()}); err != nil {
		t.Fatal(err)
	}
	proposeAll(t, n, "a", "b", "c")
	if err := n.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	proposeAll(t, n, "d", "e", "f")
	if err := n.Shutdown(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replay returns the state of an archive from a start on.
func replay(t *testing.T, a *Archive, s Start) string {
	t.Helper()
	l := &list{}
	if s.Snapshot() {
		if err := a.Read(s, l.Restore); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Entries(s, func(_ uint64, proposals [][]byte) error {
		l.Apply(0, proposals)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(l.all, "")
}

// TestAnArchiveHasAllOfALog reads the directory of a member that has ended, from its beginning and from its
// snapshot. It keeps the member from starting meanwhile, and is refused while that runs.
func TestAnArchiveHasAllOfALog(t *testing.T) {
	dir := written(t)
	a, err := OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, last := a.Bounds()
	if first != 1 || last < 8 || a.LastIndex() != last { // a configuration and an election beside six proposals
		t.Errorf("entries %d to %d, the last one known is %d", first, last, a.LastIndex())
	}
	early, err1 := a.Earliest()
	late, err2 := a.Latest()
	later := a.Later(early)
	if err1 != nil || err2 != nil || early.Snapshot() || !late.Snapshot() || len(later) != 1 || later[0] != late ||
		len(a.Later(late)) != 0 {
		t.Fatalf("it begins at %+v, %v, or at %+v, %v; snapshots %+v", early, err1, late, err2, later)
	}
	for _, s := range []Start{early, late} {
		if got := replay(t, a, s); got != "abcdef" {
			t.Errorf("from %+v: %q", s, got)
		}
	}
	if term, err := a.LastTerm(); err != nil || term == 0 || a.AddrOf("n1") == "" || a.AddrOf("n2") != "" {
		t.Errorf("term %d, %v, addresses %q and %q", term, err, a.AddrOf("n1"), a.AddrOf("n2"))
	}
	stop := errors.New("enough")
	if err := a.Entries(late, func(uint64, [][]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("after an error it goes on: %v", err)
	}
	if err := a.Read(late, func(io.Reader) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a snapshot that cannot be read: %v", err)
	}
	if err := a.Read(Start{Index: 3, id: "none"}, (&list{}).Restore); err == nil {
		t.Error("a missing snapshot is read")
	}
	again, err := OpenArchive(dir) // two may read
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
	n, _ := openAlone(t, dir)
	proposeAll(t, n, "g")
	if _, err := OpenArchive(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("while the member runs: %v", err)
	}
}

// TestWhichArchiveIsRefused damages one thing of a directory at a time.
func TestWhichArchiveIsRefused(t *testing.T) {
	dir := written(t)
	snapshots, _ := filepath.Glob(filepath.Join(dir, snapshotsDir, "*"))
	if len(snapshots) != 1 {
		t.Fatal(snapshots)
	}
	meta, state := filepath.Join(snapshots[0], "meta.json"), filepath.Join(snapshots[0], "state.bin")
	newer := func([]byte) []byte { return []byte(`{"format":2}`) }
	none := func([]byte) []byte { return []byte(`{"format":0}`) }
	for name, c := range map[string]struct {
		path   string
		damage func([]byte) []byte // nil: it is missing
		want   string
	}{
		"no log":                {filepath.Join(dir, logFile), nil, "no log"},
		"a log cut short":       {filepath.Join(dir, logFile), func(b []byte) []byte { return b[:len(b)/2] }, "cut short"},
		"no version":            {filepath.Join(dir, versionFile), nil, "missing, although a log exists"},
		"a newer version":       {filepath.Join(dir, versionFile), newer, "newer"},
		"an impossible version": {filepath.Join(dir, versionFile), none, "is not a version"},
		"a snapshot of another name": {meta, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"ID":"`, `"ID":"x`, 1))
		}, "does not describe"},
		"a snapshot of another term": {meta, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"Term":`, `"Term":9`, 1))
		}, "were copied at different times"},
		"a snapshot cut short": {state, func(b []byte) []byte { return b[:len(b)-1] }, "a wrong checksum"},
		"a snapshot with another byte": {state, func(b []byte) []byte {
			b[len(b)-1] ^= 1
			return b
		}, "a wrong checksum"},
	} {
		before, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if c.damage == nil {
			err = os.Remove(c.path)
		} else {
			err = os.WriteFile(c.path, c.damage(slices.Clone(before)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		a, err := OpenArchive(dir)
		if err == nil {
			s, _ := a.Latest()
			err = errors.Join(a.Read(s, (&list{}).Restore), a.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err := os.WriteFile(c.path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unfinished := filepath.Join(dir, snapshotsDir, "1-1-1.tmp")
	err := errors.Join(os.Mkdir(unfinished, 0o700), os.WriteFile(filepath.Join(unfinished, "meta.json"), nil, 0o600),
		os.Remove(filepath.Join(dir, lockFile))) // as in a copy of the directory
	if err != nil {
		t.Fatal(err)
	}
	a, err := OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if len(a.snapshots) != 1 {
		t.Errorf("%d snapshots, one that a crash cut short too", len(a.snapshots))
	}
}

// metaOf is a snapshot that ends with an entry.
func metaOf(id string, index, term uint64, members ...Member) *snapshotMeta {
	m := &snapshotMeta{SnapshotMeta: raft.SnapshotMeta{ID: id, Index: index, Term: term}}
	for _, x := range members {
		m.Configuration.Servers = append(m.Configuration.Servers, raft.Server{ID: x.serverID(),
			Address: raft.ServerAddress(x.Addr)})
	}
	return m
}

// TestWhereAnArchiveBegins goes through what a log and its snapshots have: a start is one from which no entry
// is missing.
func TestWhereAnArchiveBegins(t *testing.T) {
	for _, c := range []struct {
		first, last uint64
		snapshots   []uint64
		earliest    int // index of the snapshot; 0: an empty state; -1: refused
		latest      int
		end         uint64
	}{
		{1, 9, nil, 0, 0, 9},
		{2, 9, nil, -1, -1, 9},
		{1, 9, []uint64{4}, 0, 4, 9},
		{5, 9, []uint64{4}, 4, 4, 9},
		{6, 9, []uint64{4}, -1, -1, 9},
		{5, 9, []uint64{3, 4, 7}, 4, 7, 9},
		{5, 9, []uint64{2, 3}, -1, -1, 9},
		{0, 0, []uint64{4, 7}, 4, 7, 7},
		{5, 9, []uint64{9}, 9, 9, 9},
		{5, 9, []uint64{12}, 12, 12, 12},
		{0, 0, nil, -1, -1, 0},
	} {
		a := &Archive{dir: "d", first: c.first, last: c.last}
		for _, i := range c.snapshots {
			a.snapshots = append(a.snapshots, metaOf(fmt.Sprint("s", i), i, 1))
		}
		check := func(what string, want int, get func() (Start, error)) {
			s, err := get()
			if want < 0 {
				if !errors.Is(err, ErrCorrupt) {
					t.Errorf("%+v: the %s start is %+v, %v", c, what, s, err)
				}
				return
			}
			if err != nil || s.Index != uint64(want) || s.Snapshot() != (want > 0) {
				t.Errorf("%+v: the %s start is %+v, %v", c, what, s, err)
			}
		}
		check("earliest", c.earliest, a.Earliest)
		check("latest", c.latest, a.Latest)
		if got := a.LastIndex(); got != c.end {
			t.Errorf("%+v: the last entry known is %d", c, got)
		}
		for at := range uint64(10) {
			want := len(slices.DeleteFunc(slices.Clone(c.snapshots), func(i uint64) bool { return i <= at }))
			if got := len(a.Later(Start{Index: at})); got != want {
				t.Errorf("%+v: %d snapshots after entry %d, want %d", c, got, at, want)
			}
		}
	}
}

// TestAddressesInAnArchive: that of the newest snapshot that has the member counts.
func TestAddressesInAnArchive(t *testing.T) {
	a := &Archive{snapshots: []*snapshotMeta{
		metaOf("s1", 1, 1, Member{Name: "n1", Addr: "old:1", Log: "a"}, Member{Name: "n2", Addr: "two:1", Log: "b"}),
		metaOf("s2", 2, 1, Member{Name: "n1", Addr: "new:1", Log: "a"}),
	}}
	for name, want := range map[string]string{"n1": "new:1", "n2": "two:1", "n3": ""} {
		if got := a.AddrOf(name); got != want {
			t.Errorf("%s is at %q, want %q", name, got, want)
		}
	}
}

// TestASnapshotBeyondTheLogIsNotCompared compares a snapshot with the entry at its end, if the log has that.
func TestASnapshotBeyondTheLogIsNotCompared(t *testing.T) {
	a, err := OpenArchive(written(t))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	own := a.snapshots[0].Term
	for _, c := range []struct {
		first, index, term uint64
		agrees             bool
	}{
		{1, 1, own + 7, false}, {1, a.last, own + 7, false}, {1, a.last + 1, own + 7, true}, {2, 1, own + 7, true},
		{2, 2, own + 7, false}, {0, 1, own + 7, true}, {1, a.last, own, true},
	} {
		b := *a
		b.first, b.snapshots = c.first, []*snapshotMeta{metaOf("s", c.index, c.term)}
		if err := b.agree(); (err == nil) != c.agrees {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, term := range []uint64{own - 1, own, own + 3} {
		b := *a
		b.snapshots = []*snapshotMeta{metaOf("s", 1, term)}
		if got, err := b.LastTerm(); err != nil || got != max(own, term) {
			t.Errorf("a snapshot of term %d, and the log of term %d: %d, %v", term, own, got, err)
		}
	}
}

// TestAClusterOfOne makes a directory whose log begins behind an entry of another cluster. Its member leads,
// has the state, and gives only later numbers.
func TestAClusterOfOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	self := Member{Name: "n1", Addr: "127.0.0.1:7"}
	write := func(w io.Writer) error { return json.NewEncoder(w).Encode([]string{"x", "y"}) }
	if err := NewAlone(dir, self, 41, 6, write); err != nil {
		t.Fatal(err)
	}
	if err := NewAlone(dir, self, 41, 6, write); err == nil {
		t.Error("a directory that is not empty is taken")
	}
	a, err := OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Latest()
	if term, err := a.LastTerm(); err != nil || term != 7 || a.LastIndex() != 42 || a.AddrOf("n1") != self.Addr {
		t.Errorf("term %d, %v, entry %d, %q", term, err, a.LastIndex(), a.AddrOf("n1"))
	}
	if err != nil || s.Index != 42 || replay(t, a, s) != "xy" {
		t.Errorf("it begins at %+v, %v", s, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	n, l := openAlone(t, dir)
	proposeAll(t, n, "z")
	if _, err := n.Barrier(t.Context()); err != nil { // callers are answered before their entry counts as applied
		t.Fatal(err)
	}
	if !slices.Equal(l.all, []string{"x", "y", "z"}) || n.Applied() <= 42 || n.Term() <= 7 {
		t.Errorf("%v at entry %d of term %d", l.all, n.Applied(), n.Term())
	}
}

// TestDirectoriesAreSwapped goes on after a crash between the two steps, too.
func TestDirectoriesAreSwapped(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		at := t.TempDir()
		dir, fresh, aside := filepath.Join(at, "raft"), filepath.Join(at, "fresh"), filepath.Join(at, "aside")
		for name, path := range map[string]string{"old": dir, "new": fresh} {
			if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, name), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if crashed {
			if err := os.Rename(dir, aside); err != nil {
				t.Fatal(err)
			}
		}
		if err := SwapDirs(dir, fresh, aside); err != nil {
			t.Errorf("crashed %t: %v", crashed, err)
		}
		_, err1 := os.Stat(filepath.Join(dir, "new"))
		_, err2 := os.Stat(filepath.Join(aside, "old"))
		if _, err := os.Stat(fresh); err1 != nil || err2 != nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("crashed %t: %v, %v, %v", crashed, err1, err2, err)
		}
		if err := SwapDirs(dir, fresh, filepath.Join(at, "again")); err == nil {
			t.Error("there is nothing to put in its place")
		}
	}
}

// TestTurns bootstraps a member of three without the others: how many go before it when a leader is gone, and
// which of them it has not met.
func TestTurns(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "n2", filepath.Join(t.TempDir(), "raft"), "127.0.0.1:0"
	n, err := Open(cfg, &list{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Abort() })
	others := []Member{{Name: "n3", Addr: "127.0.0.1:1", Log: "c"}, {Name: "n1", Addr: "127.0.0.1:2", Log: "a"}}
	if turn, votes := n.turn(others[0]); votes {
		t.Errorf("before it is a member it has turn %d", turn)
	}
	if err := n.Bootstrap(append(others, n.Self())); err != nil {
		t.Fatal(err)
	}
	for gone, want := range map[string]int{"n1": 0, "n3": 1, "n4": 1} {
		if turn, votes := n.turn(Member{Name: gone}); turn != want || !votes {
			t.Errorf("%s is gone: turn %d, votes %t", gone, turn, votes)
		}
	}
	if turn, votes := n.turn(n.Self()); votes {
		t.Errorf("it is gone itself: turn %d", turn)
	}
	if got := n.unmet(); len(got) != 2 {
		t.Errorf("it has not met %v", got)
	}
	n.known.meet(others[1].serverID())
	if got := n.unmet(); len(got) != 1 || got[0].Name != "n3" {
		t.Errorf("it has met n1, and not %v", got)
	}
	for _, m := range []Member{{Name: "n1"}, {Name: "n1", Log: "x"}} {
		if err := n.AddVoter(t.Context(), m); err == nil || errors.Is(err, ErrNameTaken) != (m.Log != "") {
			t.Errorf("%+v is added: %v", m, err)
		}
	}
}
