package output

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
)

// TestTheDaemonsLogsAreBounded shows that the daemon's files keep to the defaults, while files at a
// user's path follow the user's settings.
func TestTheDaemonsLogsAreBounded(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	for _, c := range []struct {
		path  string
		asked int64
		max   int64
		keep  int
	}{{"", 1 << 50, 1 << 30, 3}, {own, 1 << 50, 1 << 50, 1000}, {"", 0, 1 << 30, 3}, {own, 0, 1 << 30, 1000},
		{"", 1, 1, 3}, {own, 1, 1, 1000}} {
		cfg := container.LogFiles{MaxSize: c.asked, Keep: 1000}
		f, err := openLog(dir, cfg, c.path, "stdout", rootAccess{})
		if err != nil {
			t.Fatal(err)
		}
		if f.max != c.max || f.keep != c.keep {
			t.Errorf("at %q: got %d files of %d bytes besides the first", c.path, f.keep, f.max)
		}
		f.file.Close()
	}
}

// TestDrainOfALogThatTakesNothing shows that the end of a worker is reported although the server of
// its log file does not answer.
func TestDrainOfALogThatTakesNothing(t *testing.T) {
	never, full, err := os.Pipe() // it is never read, so that writes hang
	if err != nil {
		t.Fatal(err)
	}
	l := newLogs(nil)
	out, err := l.pipe(&rotatingFile{file: full, max: 1 << 30, out: lossy.Writer{To: full}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var written int
	for err == nil { // until every pipe is full
		var n int
		err = out.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if err == nil {
			n, err = out.Write(make([]byte, 1<<20))
		}
		written += n
	}
	drained := make(chan struct{})
	go func() {
		l.AwaitRest(10 * time.Millisecond)
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(10 * time.Second):
		t.Errorf("after %d bytes the log is still waited for", written)
	}
	out.Close()
	never.Close()
}

// TestOrderOfStreams shows the lines that say in which order two streams were written, with files that
// are rotated, and that they go when they would be too many.
func TestOrderOfStreams(t *testing.T) {
	dir := t.TempDir()
	order := openLogOrder(dir)
	file := func(stream string) *rotatingFile {
		f, err := openLog(dir, container.LogFiles{MaxSize: 8, Keep: 1}, "", stream, rootAccess{})
		if err != nil {
			t.Fatal(err)
		}
		f.order = order
		return f
	}
	out, errs := file("stdout"), file("stderr")
	inode := func(name string) uint64 {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Stat_t
		check(t, unix.Fstat(int(f.Fd()), &st))
		return st.Ino
	}
	for _, w := range []struct {
		to   *rotatingFile
		text string
	}{{out, "ab"}, {out, "cd"}, {errs, "ef"}, {out, "gh"}, {out, "ijk"}, {errs, "l"}} {
		if lost := w.to.write([]byte(w.text)); lost.Bytes != 0 {
			t.Fatalf("%+v is lost", lost)
		}
	}
	want := []container.Run{
		{Stream: "stdout", Inode: inode("stdout.1")}, {Stream: "stderr", Inode: inode("stderr"), Until: 4},
		{Stream: "stdout", Inode: inode("stdout.1"), From: 4, Until: 2},
		{Stream: "stdout", File: 1, Inode: inode("stdout"), Until: 6},
		{Stream: "stderr", Inode: inode("stderr"), From: 2, Until: 3},
	}
	b, err := os.ReadFile(filepath.Join(dir, container.OrderFile))
	if err != nil {
		t.Fatal(err)
	}
	var got []container.Run
	for line := range strings.Lines(string(b)) {
		run, ok := container.ParseRun(strings.TrimSuffix(line, "\n"))
		if !ok {
			t.Fatalf("line %q", line)
		}
		got = append(got, run)
	}
	if !slices.Equal(got, want) {
		t.Errorf("runs %+v\nwant %+v", got, want)
	}
	order.size = maxOrder
	for _, f := range []*rotatingFile{out, errs, out} {
		if lost := f.write([]byte("x")); lost.Bytes != 0 {
			t.Errorf("%+v is lost", lost)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, container.OrderFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the order is still there: %v", err)
	}
}

// TestOrderIsKept shows that the order of two pipes is noted where they go to two files, and only
// there.
func TestOrderIsKept(t *testing.T) {
	for _, join := range []bool{false, true} {
		dir := t.TempDir()
		l, err := logsOf(t, dir, container.LogFiles{Join: join}, self())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []*os.File{l.Stderr, l.Stdout} {
			if _, err := f.WriteString("x\n"); err != nil {
				t.Fatal(err)
			}
		}
		l.CloseContainerEnds()
		l.copying.Wait()
		b, err := os.ReadFile(filepath.Join(dir, container.OrderFile))
		if n := strings.Count(string(b), "\n"); join != errors.Is(err, os.ErrNotExist) || !join && n != 2 {
			t.Errorf("joined %t: %d runs, %v", join, n, err)
		}
	}
}

// TestHowLongTheOrderIsKept: up to its bound, to the byte.
func TestHowLongTheOrderIsKept(t *testing.T) {
	for over, kept := range map[int]bool{0: true, 1: false} {
		dir := t.TempDir()
		order := openLogOrder(dir)
		f, err := openLog(dir, container.LogFiles{}, "", "stdout", rootAccess{})
		check(t, err)
		f.order = order
		f.write([]byte("x\n"))
		order.last.Stream = "stderr" // so that the next line takes as much as this one
		order.size = maxOrder - order.size + over
		f.write([]byte("x\n"))
		if _, err := os.Stat(filepath.Join(dir, container.OrderFile)); (err == nil) != kept || (order.file != nil) != kept {
			t.Errorf("%d bytes beyond the bound: %v", over, err)
		}
		order.close()
		f.file.Close()
	}
}

// TestNotesInTheOutput notices a line of this process's own that is lost, or that joins a line of the program.
func TestNotesInTheOutput(t *testing.T) {
	dir := t.TempDir()
	s, err := NewScanner(dir, container.Settings{})
	check(t, err)
	l, err := Open(dir, container.LogFiles{Join: true, Keep: 1}, self(), s.Task(""), nil)
	check(t, err)
	_, err = l.Stdout.WriteString("no end of the line")
	check(t, err)
	l.CloseContainerEnds()
	l.AwaitRest(time.Second)
	l.Note("one")
	l.Note("two")
	l.EndNotes()
	b, err := os.ReadFile(filepath.Join(dir, "stdout"))
	check(t, err)
	if got, want := string(b), "no end of the line\n[rota: one]\n[rota: two]\n"; got != want {
		t.Errorf("it has %q, not %q", got, want)
	}
	if l.notes.users != 0 {
		t.Errorf("%d users of the file are left", l.notes.users)
	}
}
