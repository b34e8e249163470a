package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closed(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, j *Journal, records ...Record) {
	t.Helper()
	if err := j.Append(records...); err != nil {
		t.Fatal(err)
	}
}

func result(code int) *model.WorkerReport {
	return &model.WorkerReport{Job: 7, Attempt: 1, State: model.WorkerExited, ExitCode: code}
}

// life is the journal of one container that ran and one that never did.
func life() []Record {
	return []Record{
		{Op: Intend, ID: "7.1.0", Cores: []int{2, 3}},
		{Op: Started, ID: "7.1.0"},
		{Op: Measured, ID: "7.1.0", Measures: &Measures{Profile: &model.Profile{Memory: 1, Rate: 5}, Rhythm: true}},
		{Op: Intend, ID: "8.1.0", Cores: []int{1}},
		{Op: Measured, ID: "7.1.0", Measures: &Measures{Profile: &model.Profile{Memory: 1, Rate: 5}, Rhythm: true,
			Packed: &model.PackedRate{Number: 2, Rate: 3}}},
		{Op: Early, ID: "7.1.0"},
		{Op: Stopped, ID: "7.1.0", Cause: model.CauseTE, Signal: "SIGUSR1"},
		{Op: Stopped, ID: "7.1.0", Cause: model.CauseTimeout, Signal: "SIGTERM"},
		{Op: StepBegun, ID: "7.1.0", Step: &Step{N: 0, State: []byte(`{"name":"a"}`)}},
		{Op: StepBegun, ID: "7.1.0", Step: &Step{N: 1, State: []byte(`{"name":"b"}`)}},
		{Op: StepEnded, ID: "7.1.0", Step: &Step{N: 1, Report: &model.StepReport{Step: model.Step{ID: 1, Row: 1}}}},
		{Op: StepEnded, ID: "7.1.0", Step: &Step{N: 0, Report: &model.StepReport{Step: model.Step{Row: 2}}, Unread: "k"}},
		{Op: StepsKnown, ID: "7.1.0", Row: 1},
		{Op: StepBegun, ID: "7.1.0", Step: &Step{N: 2, State: []byte(`{}`)}},
		{Op: StepsKnown, ID: "7.1.0", Row: 2},
		{Op: StepEnded, ID: "7.1.0", Step: &Step{N: 2, Report: &model.StepReport{Step: model.Step{ID: 2, Row: 3}}}},
		{Op: Final, ID: "7.1.0", Final: result(3)},
		{Op: StepsKnown, ID: "7.1.0", Row: 3},
		{Op: Forget, ID: "8.1.0"},
		{Op: Measured, ID: "7.1.0", Measures: &Measures{}}, // they have ended meanwhile
		{Op: Measured, ID: "8.1.0", Measures: &Measures{}},
	}
}

func TestEntriesSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	for n := range life() {
		path := path + fmt.Sprint(n)
		j := open(t, path)
		put(t, j, life()[:n+1]...)
		want := j.Entries()
		closed(t, j)
		for range 2 { // the second time reads what the first has rewritten
			j = open(t, path)
			if got := j.Entries(); !reflect.DeepEqual(got, want) {
				t.Fatalf("after %d records: got %+v, want %+v", n+1, got, want)
			}
			closed(t, j)
		}
	}
	j := open(t, path+fmt.Sprint(len(life())-1))
	defer closed(t, j)
	e, ok := j.Entry("7.1.0")
	want := Entry{ID: "7.1.0", Started: true, Early: true, Stopped: model.CauseTimeout, Signal: "SIGTERM",
		Final: result(3)}
	if !ok || !reflect.DeepEqual(e, want) {
		t.Fatalf("got %+v, want %+v", e, want)
	}
	if _, ok := j.Entry("8.1.0"); ok {
		t.Fatal("a forgotten container is remembered")
	}
}

// TestTornAnywhere cuts a journal at every byte: what was whole is kept, the rest is dropped, and
// the next record is readable.
func TestTornAnywhere(t *testing.T) {
	var whole []byte
	var ends []int
	for _, r := range life() {
		var err error
		if whole, err = appendLine(whole, r); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(whole))
	}
	dir := t.TempDir()
	for cut := 0; cut <= len(whole); cut++ {
		path := filepath.Join(dir, fmt.Sprint(cut))
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		complete := 0
		for complete < len(ends) && ends[complete] <= cut {
			complete++
		}
		want := newEntrySet()
		for _, r := range life()[:complete] {
			want.apply(r)
		}
		j := open(t, path)
		if got := j.Entries(); !reflect.DeepEqual(got, want.entries()) {
			t.Fatalf("cut at %d: got %+v, want %+v", cut, got, want.entries())
		}
		if torn := complete == 0 && cut > 0 || complete > 0 && ends[complete-1] != cut; torn != (j.Dropped() > 0) {
			t.Fatalf("cut at %d: dropped %d", cut, j.Dropped())
		}
		put(t, j, Record{Op: Intend, ID: "9.1.0"})
		closed(t, j)
		j = open(t, path)
		if _, ok := j.Entry("9.1.0"); !ok || j.Dropped() != 0 {
			t.Fatalf("cut at %d: what was added afterwards is lost", cut)
		}
		closed(t, j)
	}
}

func TestDamageInTheMiddleIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	put(t, j, life()[:4]...)
	closed(t, j)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[20] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(path)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Line != 1 || corrupt.Offset != 0 {
		t.Fatalf("got %v", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, data) {
		t.Fatal("a damaged journal was changed")
	}
}

// TestLastRecordOfALaterVersion shows that such a record is not taken for a torn one.
func TestLastRecordOfALaterVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	body := `{"op":"final","id":"7.1.0","news":1}`
	if err := os.WriteFile(path, fmt.Appendf(nil, "%08x %s\n", crc32.Checksum([]byte(body), table), body),
		0o600); err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptError
	if _, err := Open(path); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "news") {
		t.Fatalf("got %v", err)
	}
}

// TestFullDisk shows that the end of a job is written although its output has filled the disk.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("no small disk can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "journal")
	j := open(t, path)
	put(t, j, Record{Op: Intend, ID: "7.1.0"}, Record{Op: Started, ID: "7.1.0"})
	if err := os.WriteFile(filepath.Join(dir, "output"), make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for n := range 100 {
		put(t, j, Record{Op: Final, ID: fmt.Sprintf("%d.1.0", n), Final: result(n)})
	}
	closed(t, j)
	j = open(t, path)
	defer closed(t, j)
	if got := j.Entries(); len(got) != 100 || got[99].Final.ExitCode != 99 {
		t.Fatalf("got %d entries", len(got))
	}
}

// TestRewriteWithoutDescriptors shows that records after a failed rewrite are in the file at the
// journal's path.
func TestRewriteWithoutDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	put(t, j, life()...)
	next, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	highest := next.Fd()
	var before syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before), next.Close()); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = uint64(highest) + 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	err = j.rewrite()
	j.mu.Unlock()
	if err := errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	put(t, j, Record{Op: Intend, ID: "9.1.0"})
	closed(t, j)
	j = open(t, path)
	defer closed(t, j)
	if _, ok := j.Entry("9.1.0"); !ok {
		t.Fatalf("got %+v", j.Entries())
	}
}

func TestOneDaemonOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	defer closed(t, j)
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("got %v", err)
	}
	j.mu.Lock()
	j.size++ // so that the file is replaced
	err := j.rewrite()
	j.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("after rewriting: got %v", err)
	}
}

// TestOpenAfterAKill shows that Open waits while a child of a killed daemon still holds the lock.
func TestOpenAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	child, err := syscall.Dup(int(j.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	closed(t, j)
	time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Close(child) })
	closed(t, open(t, path))
}

func TestConcurrentAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	j.compactAt = 2000 // rewritten again and again
	var group sync.WaitGroup
	for n := range 64 {
		group.Go(func() {
			id := fmt.Sprintf("%d.1.0", n)
			for _, r := range []Record{{Op: Intend, ID: id, Cores: []int{n}}, {Op: Started, ID: id},
				{Op: Final, ID: id, Final: result(n)}} {
				if err := j.Append(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	closed(t, j)
	j = open(t, path)
	defer closed(t, j)
	for n := range 64 {
		e, ok := j.Entry(fmt.Sprintf("%d.1.0", n))
		if !ok || !e.Started || e.Final == nil || e.Final.ExitCode != n {
			t.Fatalf("container %d: got %+v", n, e)
		}
	}
}

func TestFirstResultStays(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	defer closed(t, j)
	put(t, j, Record{Op: Final, ID: "7.1.0", Final: result(3)}, Record{Op: Final, ID: "7.1.0", Final: result(4)})
	if e, _ := j.Entry("7.1.0"); e.Final.ExitCode != 3 {
		t.Fatalf("got %d", e.Final.ExitCode)
	}
}

func TestResultsAreBounded(t *testing.T) {
	f := newEntrySet()
	for n := range FinalsKept + 10 {
		f.apply(Record{Op: Final, ID: fmt.Sprint(n), Final: result(0)})
	}
	if len(f.kept) != FinalsKept || f.kept["9"] != nil || f.kept["10"] == nil {
		t.Fatalf("kept %d", len(f.kept))
	}
}

func TestRefusals(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	for _, r := range []Record{{}, {Op: Intend}, {Op: "later", ID: "1.1.0"}, {Op: Final, ID: "1.1.0"},
		{Op: StepBegun, ID: "1.1.0"}, {Op: StepEnded, ID: "1.1.0", Step: &Step{}}} {
		if err := j.Append(r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	closed(t, j)
	if err := j.Append(life()[0]); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("after Close: got %v", err)
	}
}

// TestStepsGoOnFromTheirNumber notices a step that gets the number of another one, or a row that the
// controllers have for another step, after a restart.
func TestStepsGoOnFromTheirNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	for n := range 12 {
		j := open(t, path)
		if n == 0 {
			put(t, j, Record{Op: Intend, ID: "7.1.0"})
		}
		e, _ := j.Entry("7.1.0")
		if e.NextStep != n || e.Rows != n {
			t.Fatalf("before step %d: %+v", n, e)
		}
		put(t, j, Record{Op: StepBegun, ID: "7.1.0", Step: &Step{N: e.NextStep, State: []byte("{}")}},
			Record{Op: StepEnded, ID: "7.1.0",
				Step: &Step{N: e.NextStep, Report: &model.StepReport{Step: model.Step{ID: n, Row: e.Rows + 1}},
					Unread: strings.Repeat("k", n)}},
			Record{Op: StepsKnown, ID: "7.1.0", Row: n / 3 * 3})
		closed(t, j)
	}
	j := open(t, path)
	defer closed(t, j)
	if e, _ := j.Entry("7.1.0"); len(e.Steps) != 3 || e.Known != 9 {
		t.Errorf("steps that the controllers do not know: %+v", e)
	} else if len(e.Unread) != 11 || e.Unread[0] != (Unread{1, "k"}) || len(e.Unread[10].Key) != 11 {
		t.Errorf("steps that may be asked for again: %+v", e.Unread)
	}
}

func FuzzDecode(f *testing.F) {
	var whole []byte
	for _, r := range life() {
		whole, _ = appendLine(whole, r)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, good, err := decode("fuzz", data)
		if good > int64(len(data)) {
			t.Fatalf("good %d of %d", good, len(data))
		}
		if err != nil {
			return
		}
		again, length, err := decode("fuzz", data[:good])
		if err != nil || length != good || !reflect.DeepEqual(again, records) {
			t.Fatalf("what is valid reads differently: %v", err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	j, err := Open(filepath.Join(b.TempDir(), "journal"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := j.Append(Record{Op: Started, ID: "1.1.0"}); err != nil {
				b.Error(err)
			}
		}
	})
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
