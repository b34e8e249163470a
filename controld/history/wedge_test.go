package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// TestALostFileStopsNothing: what left the state before it was stored is a gap, also after another
// start. Later jobs are stored, and what another controller has is fetched into the gap.
func TestALostFileStopsNothing(t *testing.T) {
	path := file(t)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.NoteGaps(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	add(t, s, jobs(51, 60))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if s.Last() != 60 || s.Absent() != 50 || s.AbsentUntil() != job(51).Ended.Wall {
		t.Fatalf("last %d, %d absent until %d", s.Last(), s.Absent(), s.AbsentUntil())
	}
	peer := open(t, file(t))
	add(t, peer, append(jobs(1, 10), jobs(21, 60)...))
	fetch := func(ctx context.Context, from, to int64) ([]*model.Job, error) { return peer.Range(ctx, from, to, 7) }
	if err := Fill(t.Context(), s, fetch, s.Last()); err == nil || !strings.Contains(err.Error(), "record 11 ") {
		t.Errorf("a peer without 11 to 20: %v", err)
	}
	if got, err := s.Missing(t.Context(), 60); err != nil || !slices.Equal(got, []Gap{{11, 20}}) || s.Absent() != 10 {
		t.Errorf("missing %v, %d absent, %v", got, s.Absent(), err)
	}
	add(t, peer, jobs(11, 20))
	if err := Fill(t.Context(), s, fetch, s.Last()); err != nil || s.Absent() != 0 || s.Last() != 60 {
		t.Errorf("%v: %d absent, last %d", err, s.Absent(), s.Last())
	}
}

// later is the job with a number and an id that another job had in a log that was lost.
func later(seq, id int64) *model.Job {
	j := job(seq)
	j.ID, j.Ended.Wall, j.Owner.User = model.JobID(id), j.Ended.Wall+1_000_000, "later"
	return j
}

// TestALogThatWentBack: jobs that it does not know stay, behind all others, page by page, and its
// numbers and ids are stored again.
func TestALogThatWentBack(t *testing.T) {
	path := file(t)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, jobs(1, 1300))
	if moved, err := s.RollBack(t.Context(), 100); err != nil || moved != 1200 || s.Last() != 100 || s.SetAside() != 1200 {
		t.Fatalf("%d moved, last %d, %v", moved, s.Last(), err)
	}
	if moved, err := s.RollBack(t.Context(), 100); err != nil || moved != 0 {
		t.Fatalf("again: %d moved, %v", moved, err)
	}
	for seq := int64(101); seq <= 110; seq++ {
		add(t, s, []*model.Job{later(seq, seq+100)})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if s.Last() != 110 {
		t.Fatalf("last %d", s.Last())
	}
	if j, err := s.Get(t.Context(), 205); err != nil || j.Owner.User != "later" {
		t.Errorf("job 205 is %+v, %v", j, err)
	}
	f, ids := Filter{Limit: 97}, []int{}
	for {
		page, err := s.Query(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, j := range page {
			ids = append(ids, int(j.ID))
		}
		f.Before = page[len(page)-1].Seq
	}
	var want []int
	for _, span := range [][2]int{{210, 101}, {1400, 201}} {
		for id := span[0]; id >= span[1]; id-- {
			want = append(want, id)
		}
	}
	if !slices.Equal(ids, want) {
		t.Errorf("%d jobs in pages, want %d: %v", len(ids), len(want), ids[:min(len(ids), 20)])
	}
}

// TestAnotherJobWithTheNumber: the number counts for the job that the log has now.
func TestAnotherJobWithTheNumber(t *testing.T) {
	s := open(t, file(t))
	add(t, s, jobs(1, 20))
	add(t, s, []*model.Job{job(9), later(10, 500), job(21)})
	list, err := s.Query(t.Context(), Filter{IDs: ranges.Ranges{{First: 110, Last: 110}, {First: 500, Last: 500}}})
	if err != nil || len(list) != 2 || list[0].ID != 500 || list[0].Seq != 10 || list[1].ID != 110 || list[1].Seq >= 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if s.Last() != 21 || s.SetAside() != 1 {
		t.Errorf("last %d, %d set aside", s.Last(), s.SetAside())
	}
}

// TestRandomDaysOfAFile compares a file with a plain map while it is opened again, loses jobs, falls
// behind, is filled, pruned and rolled back.
func TestRandomDaysOfAFile(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	path := file(t)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	has, log, all, pruned, aside := map[int64]bool{}, int64(0), []*model.Job{nil}, int64(0), int64(0)
	wall := model.UnixMS(1_000_000)
	grow := func(n int) {
		for range n {
			log++
			wall += 1000
			j := job(log)
			j.Ended.Wall = wall
			all = append(all[:log], j)
		}
	}
	for range 300 {
		switch r.IntN(7) {
		case 0, 1: // jobs end and are stored
			from := log
			grow(1 + r.IntN(5))
			add(t, s, all[from+1:])
			for seq := from + 1; seq <= log; seq++ {
				has[seq] = true
			}
		case 2: // jobs leave the state while the file is away
			grow(1 + r.IntN(5))
			err = s.NoteGaps(t.Context(), log)
		case 3: // another controller has some
			_ = Fill(t.Context(), s, func(_ context.Context, from, to int64) ([]*model.Job, error) {
				var some []*model.Job
				for seq := from; seq <= to && seq <= from+3; seq++ {
					if r.IntN(2) == 0 {
						some = append(some, all[seq])
						has[seq] = true
					}
				}
				return some, nil
			}, log) // it lacks some
		case 4:
			if back := log - r.Int64N(4); back >= 0 && r.IntN(4) == 0 {
				var moved, want int64
				for seq := back + 1; seq <= log; seq++ {
					if has[seq] {
						want++
					}
					delete(has, seq)
				}
				if moved, err = s.RollBack(t.Context(), back); moved != want {
					t.Fatalf("seed=%d: %d moved, want %d", seed, moved, want)
				}
				aside += moved
				log, pruned = back, min(pruned, back)
			}
		case 5:
			if seq := pruned + r.Int64N(3); seq > pruned && seq < log && has[seq] && r.IntN(3) == 0 {
				_, err = s.Prune(t.Context(), all[seq].Ended.Wall+1)
				for k := pruned + 1; k <= seq; k++ {
					delete(has, k)
				}
				pruned = seq
			}
		case 6:
			if err = s.Close(); err == nil {
				s, err = Open(path)
			}
		}
		if err != nil {
			t.Fatalf("seed=%d: %v", seed, err)
		}
		sameAs(t, fmt.Sprintf("seed=%d", seed), s, has, pruned, log)
		if s.SetAside() != aside {
			t.Fatalf("seed=%d: %d set aside, want %d", seed, s.SetAside(), aside)
		}
	}
}

func sameAs(t *testing.T, at string, s *Store, has map[int64]bool, pruned, log int64) {
	t.Helper()
	var want []int64
	absent := int64(0)
	for seq := int64(1); seq <= log; seq++ {
		if has[seq] {
			want = append(want, seq)
		} else if seq > pruned {
			absent++
		}
	}
	list, err := s.Range(t.Context(), 1, log+10, 0)
	if err != nil || !slices.Equal(seqs(list), want) {
		t.Fatalf("%s: the file has %v, want %v, %v", at, seqs(list), want, err)
	}
	missing, err := s.Missing(t.Context(), log)
	lacks := int64(0)
	for _, g := range missing {
		lacks += g.To - g.From + 1
	}
	if err != nil || lacks != absent || s.Last() != log {
		t.Fatalf("%s: missing %v, want %d; last %d, want %d; %v", at, missing, absent, s.Last(), log, err)
	}
}

// TestPruning removes what ended before an instant, batch by batch and in the order of numbers.
func TestPruning(t *testing.T) {
	path := file(t)
	s := open(t, path)
	add(t, s, jobs(1, 1200))
	before := job(1101).Ended.Wall
	total := 0
	for {
		n, err := s.Prune(t.Context(), before)
		if err != nil || n > pruneBatch {
			t.Fatalf("%d removed at once, %v", n, err)
		}
		if total += n; n == 0 {
			break
		}
	}
	if total != 1100 || s.Last() != 1200 || s.Absent() != 0 || s.KeptSince() != before {
		t.Errorf("%d removed, last %d, absent %d, kept since %d", total, s.Last(), s.Absent(), s.KeptSince())
	}
	again := open(t, path)
	list, err := again.Range(t.Context(), 1, 2000, 0)
	if err != nil || len(list) != 100 || list[0].Seq != 1101 || again.KeptSince() != before || again.Last() != 1200 {
		t.Errorf("%d jobs, kept since %d, last %d, %v", len(list), again.KeptSince(), again.Last(), err)
	}
	if got, err := again.Missing(t.Context(), 1200); err != nil || len(got) > 0 {
		t.Errorf("what is pruned is fetched again: %v, %v", got, err)
	}
	if _, err := again.RollBack(t.Context(), 1150); err != nil {
		t.Fatal(err)
	}
	if n, err := again.Prune(t.Context(), job(1160).Ended.Wall); err != nil || n != 50+9 {
		t.Errorf("%d removed, those set aside among them, want 59: %v", n, err)
	}
}

// TestADamagedRowHidesNoOther: it is told once and left out, and pages go on behind it.
func TestADamagedRowHidesNoOther(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := open(t, file(t))
	told := map[int64]int{}
	s.OnBadRow = func(row int64, err error) {
		if told[row]++; !errors.Is(err, ErrCorrupt) {
			t.Errorf("row %d: %v", row, err)
		}
	}
	add(t, s, jobs(1, 100))
	var want []int64
	bad := map[int64]bool{}
	for seq := int64(100); seq >= 1; seq-- {
		if r.IntN(3) > 0 {
			want = append(want, seq)
			continue
		}
		bad[seq] = true
		body := []string{"", "{", `{"id":"x"}`}[r.IntN(3)]
		if _, err := s.db.Exec("UPDATE job SET body = ? WHERE seq = ?", body, seq); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		f, got := Filter{Limit: 7}, []int64{}
		for {
			page, err := s.Query(t.Context(), f)
			if err != nil {
				t.Fatalf("seed=%d: %v", seed, err)
			}
			got = append(got, seqs(page)...)
			if len(page) < 7 {
				break
			}
			f.Before = page[6].Seq
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed=%d: %v, want %v", seed, got, want)
		}
	}
	if len(told) != len(bad) || s.BadRows() < int64(len(bad)) {
		t.Errorf("seed=%d: told of %d rows, %d are bad", seed, len(told), len(bad))
	}
	for row, times := range told {
		if times != 1 || !bad[row] {
			t.Errorf("seed=%d: row %d was told %d times", seed, row, times)
		}
		if _, err := s.Get(t.Context(), model.JobID(row+100)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("get of it: %v", err)
		}
	}
	if err := s.AppendAudit(t.Context(), []AuditEntry{{At: 1, Jobs: ranges.Span(1, 2), Times: 1}}, 0, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE audit SET jobs = 'noise'"); err != nil {
		t.Fatal(err)
	}
	if entries, err := s.Audit(t.Context(), AuditFilter{}); err != nil || len(entries) != 1 {
		t.Errorf("an entry of the audit log with bad ids: %v, %v", entries, err)
	}
}

// TestRangeIsBounded by the bytes that another controller reads into memory.
func TestRangeIsBounded(t *testing.T) {
	s := open(t, file(t))
	list := jobs(1, 30)
	for _, j := range list {
		j.Spec.Groups[0].Name = strings.Repeat("x", 2<<20)
	}
	add(t, s, list)
	got, err := s.Range(t.Context(), 1, 30, 0)
	if err != nil || len(got) != 8 {
		t.Errorf("%d jobs of 2 MiB, %v", len(got), err)
	}
}

// TestTheStartReadsNoWholeFile: a damaged page is found behind the start, and a sound file is not read
// again soon.
func TestTheStartReadsNoWholeFile(t *testing.T) {
	s := open(t, broken(t))
	if err := s.Check(t.Context(), time.Hour); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "-wal") ||
		s.CheckState() != Damaged {
		t.Errorf("%v, state %d", err, s.CheckState())
	}
	sound := open(t, filepath.Join(t.TempDir(), "h.db"))
	if sound.CheckState() != Unchecked {
		t.Errorf("state %d", sound.CheckState())
	}
	if err := sound.Check(t.Context(), time.Hour); err != nil || sound.CheckState() != Sound {
		t.Errorf("%v, state %d", err, sound.CheckState())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sound.Check(ended, 0); err == nil || sound.CheckState() != Sound {
		t.Errorf("%v, state %d", err, sound.CheckState())
	}
}
