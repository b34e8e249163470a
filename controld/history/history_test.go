package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

var seedFlag = flag.Uint64("seed", 0, "repeat a random test with this seed")

// job makes the finished job with number seq. Users, accounts, states and names repeat with
// different periods.
func job(seq int64) *model.Job {
	states := []model.JobState{model.Completed, model.Failed, model.Cancelled}
	at := model.UnixMS(1_000_000 + seq*1000)
	return &model.Job{
		ID: model.JobID(seq + 100), Seq: seq, Account: fmt.Sprint("acct", seq%5), Class: jobspec.BE,
		Owner: model.Identity{UID: 1000, User: fmt.Sprint("user", seq%7)},
		State: states[seq%3], Workers: 1, ExitCode: int(seq % 256),
		Spec:      &jobspec.Job{Name: fmt.Sprint("name", seq%2), Groups: []jobspec.Group{{Name: "g"}}},
		Submitted: model.Stamp{At: model.Instant(seq), Wall: at - 500},
		Ended:     model.Stamp{At: model.Instant(seq + 1), Wall: at},
		Attempts:  []model.Attempt{{N: 1, Cause: model.CauseCompleted, Ended: model.Stamp{At: 1}}},
	}
}

// jobs makes the jobs from to to.
func jobs(from, to int64) []*model.Job {
	var list []*model.Job
	for seq := from; seq <= to; seq++ {
		list = append(list, job(seq))
	}
	return list
}

func seqs(list []*model.Job) []int64 {
	var s []int64
	for _, j := range list {
		s = append(s, j.Seq)
	}
	return s
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "history ?#%.db") }

func add(t testing.TB, s *Store, list []*model.Job) {
	t.Helper()
	if err := s.Append(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

func TestTenThousand(t *testing.T) {
	s := open(t, file(t))
	const n = 10_000
	for from := int64(1); from <= n; from += 500 {
		add(t, s, jobs(from, from+499))
	}
	add(t, s, jobs(9_990, n)) // again: nothing changes
	if got := s.Last(); got != n {
		t.Fatalf("last %d, want %d", got, n)
	}
	all, err := s.Range(t.Context(), 1, n, 0)
	if err != nil || len(all) != n {
		t.Fatalf("range: %d jobs, %v", len(all), err)
	}
	for i, got := range all {
		if want := job(int64(i + 1)); !reflect.DeepEqual(got, want) {
			t.Fatalf("record %d came back as\n%+v, want\n%+v", i+1, got, want)
		}
	}
	got, err := s.Get(t.Context(), 4242)
	if err != nil || got.Seq != 4142 {
		t.Errorf("get 4242: %+v, %v", got, err)
	}
	if _, err := s.Get(t.Context(), 7); !errors.Is(err, ErrNoJob) {
		t.Errorf("get 7: %v", err)
	}
}

// TestQuery compares random filters with a plain loop over the same records.
func TestQuery(t *testing.T) {
	s := open(t, file(t))
	all := jobs(1, 600)
	add(t, s, all)
	slices.Reverse(all)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		f := randomFilter(r)
		got, err := s.Query(t.Context(), f)
		if err != nil {
			t.Fatalf("seed=%d: %+v: %v", seed, f, err)
		}
		if want := plainQuery(all, f); !slices.Equal(seqs(got), seqs(want)) {
			t.Fatalf("seed=%d: %+v: got %v, want %v", seed, f, seqs(got), seqs(want))
		}
	}
}

// randomFilter sets each field with some probability.
func randomFilter(r *rand.Rand) Filter {
	var f Filter
	sometimes := func(set func()) {
		if r.IntN(4) == 0 {
			set()
		}
	}
	sometimes(func() { f.User = fmt.Sprint("user", r.IntN(8)) })
	sometimes(func() { f.Account = fmt.Sprint("acct", r.IntN(6)) })
	sometimes(func() { f.Name = fmt.Sprint("name", r.IntN(3)) })
	sometimes(func() { f.States = []model.JobState{model.Failed, model.TimedOut} })
	sometimes(func() { f.Since = model.UnixMS(1_000_000 + r.Int64N(600_000)) })
	sometimes(func() { f.Until = model.UnixMS(1_000_000 + r.Int64N(700_000)) })
	sometimes(func() { f.Before = 1 + r.Int64N(600) })
	sometimes(func() { f.Limit = 1 + r.IntN(20) })
	sometimes(func() {
		for range 50 {
			first := 1 + r.IntN(800)
			f.IDs = f.IDs.With(ranges.Span(first, first+r.IntN(3)))
		}
	})
	return f
}

// plainQuery is Query without a database. newest has the last first.
func plainQuery(newest []*model.Job, f Filter) []*model.Job {
	var out []*model.Job
	for _, j := range newest {
		if len(out) < limited(f.Limit) && plainMatch(j, f) {
			out = append(out, j)
		}
	}
	return out
}

func plainMatch(j *model.Job, f Filter) bool {
	return (f.IDs == nil || f.IDs.Has(int(j.ID))) &&
		(f.States == nil || slices.Contains(f.States, j.State)) &&
		(f.User == "" || f.User == j.Owner.User) && (f.Account == "" || f.Account == j.Account) &&
		(f.Name == "" || f.Name == j.Spec.Name) &&
		(f.Since == 0 || j.Ended.Wall >= f.Since) && (f.Until == 0 || j.Ended.Wall < f.Until) &&
		(f.Before == 0 || j.Seq < f.Before)
}

func TestGapsAndFill(t *testing.T) {
	peer, s := open(t, file(t)), open(t, file(t))
	add(t, peer, jobs(1, 5000))
	if got, err := s.Missing(t.Context(), 3); err != nil || !slices.Equal(got, []Gap{{1, 3}}) {
		t.Fatalf("missing of nothing: %v, %v", got, err)
	}
	add(t, s, jobs(1, 10))
	add(t, s, jobs(12, 20))
	add(t, s, jobs(4000, 4001))
	if got := s.Last(); got != 10 {
		t.Errorf("last %d, want 10", got)
	}
	want := []Gap{{11, 11}, {21, 3999}, {4002, 5000}}
	if got, err := s.Missing(t.Context(), 5000); err != nil || !slices.Equal(got, want) {
		t.Fatalf("missing %v, %v, want %v", got, err, want)
	}
	if got, err := s.Missing(t.Context(), 15); err != nil || !slices.Equal(got, want[:1]) {
		t.Fatalf("missing up to 15: %v, %v", got, err)
	}
	calls := 0
	fetch := func(ctx context.Context, from, to int64) ([]*model.Job, error) {
		calls++
		return peer.Range(ctx, from, to, 700) // less than was asked for
	}
	if err := Fill(t.Context(), s, fetch, 5000); err != nil {
		t.Fatal(err)
	}
	if got := s.Last(); got != 5000 || calls < 5 {
		t.Errorf("last %d after %d fetches", got, calls)
	}
	if err := Fill(t.Context(), s, fetch, 5001); err == nil || !strings.Contains(err.Error(), "5001") {
		t.Errorf("fill beyond what the peer has: %v", err)
	}
}

// TestOneWrongRecordStopsNoFill: of an answer of another controller the wrong records are left out, and
// the others are stored.
func TestOneWrongRecordStopsNoFill(t *testing.T) {
	live := job(2)
	live.State = model.Running
	for name, c := range map[string]struct {
		answer []*model.Job
		stored []int64
	}{
		"hole": {[]*model.Job{job(1), job(3)}, []int64{1, 3}}, "too many": {jobs(1, 5), []int64{1, 2, 3}},
		"nil": {[]*model.Job{nil, job(1)}, []int64{1}}, "none": {nil, nil},
		"not from the start": {[]*model.Job{job(2)}, []int64{2}}, "not in order": {[]*model.Job{job(2), job(1)}, []int64{2}},
		"running": {[]*model.Job{job(1), live, job(3)}, []int64{1, 3}},
	} {
		s := open(t, file(t))
		fetch := func(_ context.Context, from, to int64) ([]*model.Job, error) {
			if from > 1 {
				return nil, nil // it has no more
			}
			return c.answer, nil
		}
		err := Fill(t.Context(), s, fetch, 3)
		list, readErr := s.Range(t.Context(), 1, 9, 0)
		if !slices.Equal(seqs(list), c.stored) || (err == nil) != (len(c.stored) == 3) || readErr != nil {
			t.Errorf("%s: stored %v, want %v: %v, %v", name, seqs(list), c.stored, err, readErr)
		}
	}
}

// TestOneJobThatCannotBeStored is left out by name and is a gap; the others are stored, and the next
// too.
func TestOneJobThatCannotBeStored(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := open(t, file(t))
	var bad, good []int64
	for from := int64(1); from <= 200; from += 20 {
		batch := jobs(from, from+19)
		for _, j := range batch {
			switch r.IntN(8) {
			case 0:
				j.State = model.Running
			case 1:
				j.State = model.Pending
			default:
				good = append(good, j.Seq)
				continue
			}
			bad = append(bad, j.Seq)
		}
		err := s.Append(t.Context(), batch)
		refused, ok := RefusedJobs(err)
		if ok != (err != nil) || ok && !errors.Is(err, ErrNotFinal) {
			t.Fatalf("seed=%d: %v", seed, err)
		}
		for _, e := range refused {
			if !slices.Contains(bad, e.Seq) || int64(e.ID) != e.Seq+100 || !strings.Contains(err.Error(), "job ") {
				t.Errorf("seed=%d: refused %v of %v", seed, e, bad)
			}
		}
		if s.Last() != from+19 {
			t.Fatalf("seed=%d: last %d, want %d", seed, s.Last(), from+19)
		}
	}
	list, err := s.Range(t.Context(), 1, 200, 0)
	if err != nil || !slices.Equal(seqs(list), good) || s.Absent() != int64(len(bad)) {
		t.Errorf("seed=%d: %d of %d stored, %d absent, %v", seed, len(list), len(good), s.Absent(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	newer := file(t)
	s := open(t, newer)
	if _, err := s.db.Exec("PRAGMA user_version = 4"); err != nil {
		t.Fatal(err)
	}
	noise := file(t)
	if err := os.WriteFile(noise, []byte(strings.Repeat("noise", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		newer: ErrNewer, noise: ErrCorrupt,
		filepath.Join(t.TempDir(), "none", "history.db"): ErrNotWritable,
	} {
		s, err := Open(path)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("open %s: %v, want %v", path, err, want)
		}
	}
}

// broken makes a file with a page of noise in the middle.
func broken(t *testing.T) string {
	path := file(t)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, jobs(1, 500))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("noise", 4000)), 128<<10); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDurability(t *testing.T) {
	s := open(t, file(t))
	for range 8 { // every connection of the pool
		conn, err := s.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkPragmas(t, conn)
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func checkPragmas(t *testing.T, conn *sql.Conn) {
	t.Helper()
	var mode string
	var synchronous int
	err := errors.Join(conn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode),
		conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous))
	if err != nil || mode != "wal" || synchronous != 2 {
		t.Errorf("journal %s, synchronous %d, %v", mode, synchronous, err)
	}
}

// childFile makes the test binary append to a file until it is killed.
const childFile = "ROTA_HISTORY_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		fmt.Fprintln(os.Stderr, appendForEver(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func appendForEver(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	for {
		if err := s.Append(context.Background(), jobs(s.Last()+1, s.Last()+7)); err != nil {
			return err
		}
		fmt.Println(s.Last())
	}
}

func TestKillNine(t *testing.T) {
	path := file(t)
	for range 3 {
		acked := killAfter(t, path, 20)
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Last() < acked || s.Last()%7 != 0 {
			t.Errorf("last %d after %d was acknowledged", s.Last(), acked)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter kills a child after count acknowledgements and returns the last number it had printed.
func killAfter(t *testing.T, path string, count int) int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last int64
	for seen := 1; ; seen++ {
		if _, err := fmt.Fscanln(out, &last); err != nil {
			break
		}
		if seen == count {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	if last == 0 {
		t.Fatal("the child acknowledged nothing")
	}
	return last
}

func BenchmarkAppend(b *testing.B) {
	for _, batch := range []int64{1, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s := open(b, file(b))
			next := int64(1)
			for b.Loop() {
				add(b, s, jobs(next, next+batch-1))
				next += batch
			}
			b.ReportMetric(float64(next-1)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// TestSuspensionsSurvive: for how long a job was suspended and what was tried with it is in the
// history.
func TestSuspensionsSurvive(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "history.db"))
	want := job(1)
	want.Ledger = model.Ledger{GPUMS: 200_000, SuspendedMS: 140_000}
	want.Counters.Suspensions = 3
	a := &want.Attempts[0]
	a.Switch = &model.Switching{Number: 6, Cause: model.CauseSlice, For: 7, Total: 70_000}
	a.Trials = []model.Trial{{What: model.TrialPack, With: 9, Expected: 1400, Measured: 870, Undone: true}}
	a.Workers = []model.Worker{{SuspendedMS: 70_000}}
	if err := s.Append(t.Context(), []*model.Job{want}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Query(t.Context(), Filter{Limit: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d jobs, %v", len(got), err)
	}
	if j := got[0]; j.Ledger != want.Ledger || j.Counters != want.Counters ||
		!reflect.DeepEqual(j.Attempts, want.Attempts) {
		t.Errorf("got %+v, %+v, %+v", j.Ledger, j.Counters, j.Attempts)
	}
}
