package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// TestTheDaemonsLogsAreBounded shows that the daemon's files keep to the defaults, while files at a
// user's path follow the user's settings.
func TestTheDaemonsLogsAreBounded(t *testing.T) {
	dir := t.TempDir()
	cfg := container.LogFiles{MaxSize: 1 << 50, Keep: 1000}
	for _, c := range []struct {
		path string
		max  int64
		keep int
	}{{"", 1 << 30, 3}, {filepath.Join(dir, "own"), 1 << 50, 1000}} {
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
	l := &logs{}
	out, err := l.pipe(&rotatingFile{file: full, max: 1 << 30}, nil)
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
		l.awaitRest(10 * time.Millisecond)
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

// descriptors counts what this process has open. What earlier tests have left is closed meanwhile, so
// that the number may fall at any moment.
func descriptors(t *testing.T) int {
	t.Helper()
	runtime.GC()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// TestRotationKeepsEveryLine notices a rotation that drops lines: what is written while a file is
// full, a file that is overwritten by an older one, or one file too few that stays.
func TestRotationKeepsEveryLine(t *testing.T) {
	const most, each = 100, 10 // bytes of a file and of a line
	for keep := range 5 {
		path := filepath.Join(t.TempDir(), "stdout")
		r := &rotatingFile{path: path, max: most, keep: keep, as: rootAccess{}}
		must(t, r.open(false))
		before := descriptors(t)
		var all strings.Builder
		for i := range 78 {
			line := fmt.Sprintf("line %04d\n", i)
			all.WriteString(line)
			if lost := r.write([]byte(line)); lost != 0 {
				t.Errorf("%d bytes of %q are lost", lost, line)
			}
		}
		if now := descriptors(t); now > before {
			t.Errorf("keep %d: %d descriptors, before %d", keep, now, before)
		}
		got := ""
		for n := keep; n >= 0; n-- {
			name := path
			if n > 0 {
				name += fmt.Sprint(".", n)
			}
			b, err := os.ReadFile(name)
			must(t, err)
			if want := most; len(b) != want && n > 0 || len(b) != 80 && n == 0 {
				t.Errorf("keep %d: %s has %d bytes", keep, filepath.Base(name), len(b))
			}
			got += string(b)
		}
		if want := all.String()[78*each-80-keep*most:]; got != want {
			t.Errorf("keep %d: got %q, want %q", keep, got, want)
		}
		if left, _ := filepath.Glob(path + "*"); len(left) != keep+1 {
			t.Errorf("keep %d: files %v", keep, left)
		}
		r.users = 1
		r.close()
	}
}

// TestALogGoesOn notices a log of an earlier attempt that is overwritten, one whose old bytes do not
// count, and a truncation that was asked for and not done.
func TestALogGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	must(t, os.WriteFile(path, []byte("earlier\n"), 0o600))
	open := func(truncate bool, most int64) *rotatingFile {
		r := &rotatingFile{path: path, max: most, keep: 1, as: rootAccess{}, users: 1}
		must(t, r.open(truncate))
		return r
	}
	holds := func(path, want string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), b, err, want)
		}
	}
	r, beside := open(false, 100), open(false, 100) // such as two workers with one path
	for _, one := range []*rotatingFile{r, beside, r} {
		one.write([]byte("now\n"))
	}
	holds(path, "earlier\nnow\nnow\nnow\n")
	r.close()
	beside.close()
	r = open(false, 20)
	r.write([]byte("more\n"))
	r.close()
	holds(path+".1", "earlier\nnow\nnow\nnow\n")
	holds(path, "more\n")
	r = open(true, 3)
	r.write([]byte("a line longer than a file\n")) // an empty file is not rotated
	r.close()
	holds(path, "a line longer than a file\n")
	holds(path+".1", "earlier\nnow\nnow\nnow\n")
}

// stuck is a directory in which nothing can be renamed.
type stuck struct{ rootAccess }

func (stuck) rename(string, string) error { return os.ErrPermission }

// TestARotationThatFailsLosesNothing notices output that is dropped because a file cannot be renamed.
func TestARotationThatFailsLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	r := &rotatingFile{path: path, max: 10, keep: 3, as: stuck{}, users: 1}
	must(t, r.open(false))
	for range 20 {
		r.write([]byte("12345678\n"))
	}
	r.close()
	if b, _ := os.ReadFile(path); len(b) != 180 {
		t.Errorf("the file has %d bytes", len(b))
	}
}

// TestLostOutputIsCounted notices output that a full disk takes away without a word: in the log, or
// in the record of the worker.
func TestLostOutputIsCounted(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	path := filepath.Join(t.TempDir(), "stdout")
	r := &rotatingFile{path: path, max: 1 << 20, file: full}
	l := &logs{}
	out, err := l.pipe(r, nil)
	must(t, err)
	count := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); l.lost.Load() < want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes are counted, not %d", l.lost.Load(), want)
			}
		}
	}
	for i := range 3 {
		_, err = out.WriteString("123456789\n")
		must(t, err)
		count(int64(10 * (i + 1)))
	}
	r.mu.Lock()
	r.file, err = os.Create(path)
	r.mu.Unlock()
	must(t, err)
	_, err = out.WriteString("there is room again\n")
	must(t, err)
	out.Close()
	l.awaitRest(time.Second)
	b, err := os.ReadFile(path)
	if want := "\n[rota: 30 bytes of output lost: no space left for the log]\nthere is room again\n"; err != nil ||
		string(b) != want {
		t.Errorf("the log holds %q, %v", b, err)
	}
	if l.lost.Load() != 30 || r.size != int64(len(b)) {
		t.Errorf("%d bytes are counted as lost, %d as written", l.lost.Load(), r.size)
	}
}

// TestStreamsGoWhereTheyBelong notices a stream that goes to the other's file, that is cut off when
// the other one ends, or that is not scanned to its last byte.
func TestStreamsGoWhereTheyBelong(t *testing.T) {
	me := container.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	for _, c := range []struct {
		cfg            func(dir string) container.LogFiles
		stream         string // that the policy is for
		stdout, stderr string // what the files hold
	}{
		{func(string) container.LogFiles { return container.LogFiles{} }, "", "out\nout2", "err\nneedle"},
		{func(string) container.LogFiles { return container.LogFiles{Join: true} }, "", "out\nout2err\nneedle", ""},
		{func(string) container.LogFiles { return container.LogFiles{Join: true} }, "stderr", "out\nout2err\nneedle", ""},
		{func(dir string) container.LogFiles {
			return container.LogFiles{Stdout: dir + "/stdout", Stderr: dir + "/stderr"}
		}, "both", "out\nout2", "err\nneedle"},
		{func(dir string) container.LogFiles { return container.LogFiles{Stderr: dir + "/stderr"} }, "", "out\nout2",
			"err\nneedle"},
	} {
		dir := t.TempDir()
		cfg := c.cfg(dir)
		scanner, err := newOutputScanner(dir, container.Settings{Policies: []container.Policy{
			{Name: "p", Pattern: "needle$", Stream: c.stream}}})
		must(t, err)
		l, err := openLogs(dir, cfg, me, scanner.task(""))
		must(t, err)
		_, err1 := l.stdout.WriteString("out\nout2")
		same := l.stdout == l.stderr
		if !same {
			l.stdout.Close()
			for range 100 { // until that stream has been read to its end
				if b, _ := os.ReadFile(filepath.Join(dir, "stdout")); len(b) > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		_, err2 := l.stderr.WriteString("err\nneedle")
		must(t, errors.Join(err1, err2))
		l.closeContainerEnds()
		l.awaitRest(time.Second)
		for name, want := range map[string]string{"stdout": c.stdout, "stderr": c.stderr} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want || os.IsNotExist(err) != (want == "") {
				t.Errorf("%+v: %s holds %q, %v", cfg, name, b, err)
			}
		}
		if found := linesOf(t, container.FindingsPath(dir)); len(found) != 1 {
			t.Errorf("%+v: found %q", cfg, found)
		}
		if info, err := os.Stat(container.FindingsPath(dir)); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("findings have mode %v", info.Mode())
		}
	}
}
