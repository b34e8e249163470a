package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/noded/container"
)

// memoryDir is a directory in memory where there is one: it has files of any size, and is quick to sync.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rota-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// rootOf opens the folder of the first attempt, which has a few files of each kind.
func rootOf(t *testing.T) (*Store, *os.Root) {
	t.Helper()
	s := prepared(t, "a", nil, 1)
	dir := s.Files(worker(1).ID)
	put(t, filepath.Join(dir, "sub", "one"), strings.Repeat("x", 700))
	put(t, filepath.Join(dir, "two"), "")
	if err := os.Symlink("two", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(s.path(worker(1).ID))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return s, root
}

// short takes so many bytes, and then fails.
type short struct{ left int }

func (s *short) Write(b []byte) (int, error) {
	n := min(len(b), s.left)
	if s.left -= n; n < len(b) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// TestASendThatIsCutFails cuts what is sent at each block. It notices a send that says it is whole.
func TestASendThatIsCutFails(t *testing.T) {
	_, root := rootOf(t)
	whole, err := stream(root)
	if err != nil {
		t.Fatal(err)
	}
	fine := func() error { return nil }
	for n := 0; n < len(whole); n += 256 {
		if err := send(t.Context(), root, &short{n}, fine); err == nil {
			t.Errorf("cut at byte %d of %d it is whole", n, len(whole))
		}
	}
	if err := send(t.Context(), root, &short{len(whole)}, fine); err != nil {
		t.Errorf("not cut: %v", err)
	}
	changed := errors.New("changed")
	if err := send(t.Context(), root, io.Discard, func() error { return changed }); !errors.Is(err, changed) {
		t.Errorf("a folder that has changed: %v", err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := send(ctx, root, io.Discard, fine); !errors.Is(err, stopped) {
		t.Errorf("after the end: %v", err)
	}
	if n, err := (untilDone{ctx, strings.NewReader("x")}).Read(make([]byte, 1)); n != 0 || !errors.Is(err, stopped) {
		t.Errorf("after the end %d bytes are read, %v", n, err)
	}
}

// TestFilesThatChangeWhileTheyAreSent swaps and cuts files between the look at them and their sending.
func TestFilesThatChangeWhileTheyAreSent(t *testing.T) {
	s, root := rootOf(t)
	dir := s.Files(worker(1).ID)
	info := func(name string) fs.FileInfo {
		i, err := root.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	if err := errors.Join(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Truncate(filepath.Join(dir, "two"),
		5)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		name string
		seen fs.FileInfo
		says string
	}{
		"the same":                  {"files/sub/one", info("files/sub/one"), ""},
		"another file":              {"files/two", info("files/sub/one"), "has changed while"},
		"a link to what was seen":   {"files/link", info("files/two"), ""}, // it is that
		"a link to another file":    {"files/link", info("files/sub/one"), "has changed while"},
		"a pipe":                    {"files/pipe", info("files/two"), "has changed while"},
		"gone":                      {"files/three", info("files/two"), "no such file"},
		"a directory, as it was":    {"files/sub", info("files/sub"), ""},
		"a directory, another once": {"files/sub", info("files"), "has changed while"},
	} {
		done := make(chan error, 1)
		go func() {
			f, err := openSame(root, c.name, c.seen)
			if err == nil {
				err = f.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it waits for ever", name)
		}
	}
	seen := info("files/sub/one")
	for size, want := range map[int64]int{seen.Size(): 700, seen.Size() - 1: -1, seen.Size() + 9: 700} {
		if err := os.Truncate(filepath.Join(dir, "sub", "one"), size); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		sum, err := sendFile(t.Context(), root, "files/sub/one", seen, &b)
		if (err != nil) != (want < 0) || err == nil && (b.Len() != want || len(sum) == 0) {
			t.Errorf("of %d bytes %d are sent, %v", size, b.Len(), err)
		}
	}
	if _, err := sendFile(t.Context(), root, "files/two", seen, io.Discard); err == nil {
		t.Error("another file is sent in its place")
	}
	if err := errors.Join(os.RemoveAll(dir), os.Symlink("/etc", dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := stream(root); err == nil || !strings.Contains(err.Error(), "files is no directory") {
		t.Errorf("a link in place of the folder: %v", err)
	}
}

// TestHowDeepATreeMayBe: as deep as the bound, and not one more.
func TestHowDeepATreeMayBe(t *testing.T) {
	for below, fits := range map[int]bool{maxDepth - 1: true, maxDepth: false} { // files is the first
		s := prepared(t, "a", nil, 1)
		if err := os.MkdirAll(filepath.Join(s.Files(worker(1).ID), strings.Repeat("d/", below)), 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(s.path(worker(1).ID))
		if err != nil {
			t.Fatal(err)
		}
		text, err := stream(root)
		if (err == nil) != fits {
			t.Errorf("%d directories in one another: %v", below+1, err)
		}
		if fits {
			dst := openStore(t, "b", &from{Store: s})
			if err := dst.Prepare(t.Context(), worker(2), source); err != nil || len(text) == 0 {
				t.Errorf("it is sent, and not taken: %v", err)
			}
		}
		root.Close()
	}
}

// TestTheEndOfAStream: the sums, and nothing behind them. A stream that ends before is cut, whatever it has.
func TestTheEndOfAStream(t *testing.T) {
	files := tar.Header{Name: filesDir, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(1, 0),
		Format: tar.FormatPAX}
	end := func(list ...tar.Header) []byte { // after the directory, without its sums
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		err := tw.WriteHeader(&files)
		for _, h := range list {
			err = errors.Join(err, tw.WriteHeader(&h))
			if h.Size < 1<<20 {
				_, werr := tw.Write(make([]byte, h.Size))
				err = errors.Join(err, werr)
			}
		}
		if err = errors.Join(err, tw.Flush()); err != nil && !errors.Is(err, tar.ErrWriteTooLong) && len(list) < 2 {
			t.Logf("as it is meant: %v", err)
		}
		return b.Bytes()
	}
	sumsOf := func(size int64) tar.Header { return tar.Header{Name: sumsFile, Typeflag: tar.TypeReg, Size: size} }
	good := entries(t, tar.Header{Name: filesDir, Typeflag: tar.TypeDir, Mode: 0o755})
	more := append(bytes.TrimRight(slices.Clone(good), "\x00"), make([]byte, 512)...)
	more = append(more[:len(more)/512*512], end()...)
	for name, c := range map[string]struct {
		text []byte
		says string // "": it is whole
	}{
		"whole":                  {good, ""},
		"cut before the sums":    {end(), errEnd.Error()},
		"nothing":                {nil, errEnd.Error()},
		"other sums":             {end(sumsOf(9)), "do not match"},
		"sums as long as can be": {end(sumsOf(1000)), "do not match"},
		"longer sums":            {end(sumsOf(1001)), "cannot be read"},
		"a link for sums": {end(tar.Header{Name: sumsFile, Typeflag: tar.TypeSymlink, Linkname: "x"}),
			"cannot be read"},
		"an entry behind them": {more, "data follows its checksums"},
		"half of a file":       {end(tar.Header{Name: "files/x", Typeflag: tar.TypeReg, Size: 2 << 20}), errEnd.Error()},
		"the largest file":     {end(tar.Header{Name: "files/x", Typeflag: tar.TypeReg, Size: maxBytes}), errEnd.Error()},
		"a larger file": {end(tar.Header{Name: "files/x", Typeflag: tar.TypeReg, Size: maxBytes + 1}),
			"more than 16 TiB"},
	} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r := receiver{user: me, room: func() error { return nil }}
		err = r.receive(t.Context(), root, bytes.NewReader(c.text))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		root.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r := receiver{user: me, root: root, block: make([]byte, blockSize)}
	if err := r.receive(ctx, root, bytes.NewReader(good)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := r.file(ctx, &tar.Header{Name: "x", Size: 1}, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("in a file after the end: %v", err)
	}
}

// TestOnlyWaitingCounts: a stream is given up when nothing has come for a time, however long it took to write what has.
func TestOnlyWaitingCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		in := watched(ctx, strings.NewReader("abc"), cancel)
		for range 3 {
			if n, err := in.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			time.Sleep(2 * stallTime) // of the bubble
		}
		if ctx.Err() != nil {
			t.Errorf("it was given up: %v", context.Cause(ctx))
		}
		in.timer.Reset(stallTime)
		in.stop()
		if time.Sleep(2 * stallTime); ctx.Err() != nil {
			t.Error("a stream that is over is given up")
		}
	})
}

// TestHowOftenASourceIsAsked counts the tries, and the time between them.
func TestHowOftenASourceIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := errors.New("no route to host")
		var at []time.Duration
		began := time.Now()
		src := &from{fails: func(int) error { at = append(at, time.Since(began)); return silent }}
		s := &Store{dir: t.TempDir(), node: "b", source: src, log: quiet, copies: make(chan struct{}, 1)}
		if _, err := s.open(t.Context(), worker(2).ID, source); !errors.Is(err, silent) || !strings.Contains(err.Error(),
			"2m0s") {
			t.Errorf("got %v", err)
		}
		var want []time.Duration
		for next, delay := time.Duration(0), 500*time.Millisecond; next <= 2*time.Minute; next, delay = next+delay,
			min(2*delay, 10*time.Second) {
			want = append(want, next)
		}
		if !slices.Equal(at, want) {
			t.Errorf("it was asked after %v, not %v", at, want)
		}
		stopped := errors.New("stopped")
		for name, full := range map[string]bool{"between two tries": false, "while all places are taken": true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(3*time.Second, func() { cancel(stopped) })
			if full {
				s.copies <- struct{}{}
			}
			if _, err := s.open(ctx, worker(2).ID, source); !errors.Is(err, stopped) {
				t.Errorf("%s: %v", name, err)
			}
			if full {
				<-s.copies
			}
			if len(s.copies) != 0 {
				t.Errorf("%s: a place is still taken", name)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		s.source = &from{fails: func(int) error { cancel(stopped); return silent }}
		if _, err := s.open(ctx, worker(2).ID, source); !errors.Is(err, stopped) {
			t.Errorf("during a try: %v", err)
		}
	})
	if s := openStore(t, "a", nil); cap(s.copies) != 4 {
		t.Errorf("%d copies at once", cap(s.copies))
	}
}

// TestCopiesThatWaitForOthers: no more than so many sources are asked at once, and a place is free when a copy is over.
func TestCopiesThatWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{dir: t.TempDir(), node: "b", source: contextSource{}, log: quiet, copies: make(chan struct{}, 2)}
		ends := make([]context.CancelFunc, 3)
		var copying sync.WaitGroup
		for i := range ends {
			var ctx context.Context
			ctx, ends[i] = context.WithCancel(t.Context())
			copying.Go(func() {
				w := worker(2)
				w.ID.Worker = i
				if err := s.Prepare(ctx, w, source); err == nil {
					t.Errorf("copy %d brought nothing and is whole", i)
				}
			})
			synctest.Wait()
			if len(s.copies) != min(i+1, 2) {
				t.Errorf("%d places are taken by %d copies", len(s.copies), i+1)
			}
		}
		left := func() int {
			list, err := os.ReadDir(s.dir)
			if err != nil {
				t.Error(err)
			}
			return len(slices.DeleteFunc(list, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), partialSuffix) }))
		}
		if n := left(); n != 2 {
			t.Errorf("%d copies have begun", n)
		}
		ends[0]()
		synctest.Wait()
		if n := left(); n != 2 || len(s.copies) != 2 {
			t.Errorf("when one has ended %d have begun", n)
		}
		ends[1]()
		ends[2]()
		copying.Wait()
		s.removals.Wait()
		if len(s.copies) != 0 || left() != 0 {
			t.Errorf("%d places are taken by none, and %d folders are left", len(s.copies), left())
		}
	})
}

// TestAWorkerHasAFolderInAnyCase: a new one if none is left where it ran, on this node or another.
// It also gets a folder over the remains of its own copy.
func TestAWorkerHasAFolderInAnyCase(t *testing.T) {
	for name, from := range map[string]*api.CheckpointSource{"it has not run": nil,
		"here": {Attempt: 1, Node: "b"}, "elsewhere": {Attempt: 1, Node: "a"}} {
		s := openStore(t, "b", &from0{})
		put(t, filepath.Join(s.dir, worker(2).ID.String()+partialSuffix, "files", "x"), "half")
		if err := s.Prepare(t.Context(), worker(2), from); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Stat(s.Files(worker(2).ID))
		if err != nil || !info.IsDir() || !s.isOf(worker(2).ID, 1000, me.UID) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(s.Files(worker(2).ID)); len(left) > 0 {
			t.Errorf("%s: it begins with %v", name, left)
		}
		s.Remove(worker(2).ID)
		s.removals.Wait()
		if left, err := os.ReadDir(s.dir); len(left) > 0 || err != nil || len(s.List()) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
	s := openStore(t, "b", nil)
	if _, err := s.NewImage(worker(2).ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an image of a worker without a folder: %v", err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	put(t, blocked, "")
	if _, err := Open(blocked, "b", nil, quiet); err == nil || !strings.Contains(err.Error(),
		"directory for checkpoints") {
		t.Errorf("a file in place of the directory: %v", err)
	}
	for _, c := range []struct {
		text string
		of   bool
	}{{`{"uid":5,"submitted":7}`, true}, {`{"uid":6,"submitted":7}`, false}, {`{"uid":5,"submitted":8}`, false},
		{`{"uid":5,"submitted":7`, false}} {
		put(t, filepath.Join(s.path(worker(3).ID), markerFile), c.text)
		if s.isOf(worker(3).ID, 7, 5) != c.of {
			t.Errorf("%s is the job's: %t", c.text, !c.of)
		}
	}
	s.dir = filepath.Join(s.dir, "none")
	if err := s.checkRoom(0); err == nil {
		t.Error("a disk that is not there has room")
	}
	if err := s.Prepare(t.Context(), worker(2), nil); err == nil {
		t.Error("a folder is made on a disk that is not there")
	}
	s.Remove(worker(2).ID) // there is none
}

// from0 is a source that has no folder.
type from0 struct{}

func (from0) Open(context.Context, *api.CheckpointSource, container.ID) (*Stream, error) {
	return nil, ErrGone
}

// TestAFullDiskKeepsNoMarker notices a folder that counts as whole though its marker could not be written.
func TestAFullDiskKeepsNoMarker(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("rota-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s, err := Open(filepath.Join(dir, "c"), "b", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := s.Prepare(t.Context(), worker(1), nil); !errors.Is(err, unix.ENOSPC) ||
		!strings.Contains(err.Error(), "make room") {
		t.Errorf("got %v", err)
	}
	if s.removals.Wait(); len(s.List()) > 0 {
		t.Errorf("there is %v", s.List())
	}
	if _, err := s.NewImage(worker(1).ID); err == nil || !strings.Contains(err.Error(), "is full: the copy needs") {
		t.Errorf("an image on a full disk: %v", err)
	}
}

// broken is an answer whose reader is gone.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestWhatAServerSays: how large a folder is, why it cannot be copied, and nothing more when its reader is gone.
func TestWhatAServerSays(t *testing.T) {
	s, _ := rootOf(t)
	node := identity.Caller{Machine: true, Role: "node", From: "b"}
	may := func() (*api.CheckpointCopy, error) { return &api.CheckpointCopy{Attempt: 2, Submitted: 1000}, nil }
	h := &Server{Store: s, Runs: func(container.ID) bool { return false },
		May: func(context.Context, container.ID, string) (*api.CheckpointCopy, error) { return may() }}
	r := httptest.NewRequestWithContext(identity.WithCaller(t.Context(), node), http.MethodGet, Path+"x", nil)
	r.SetPathValue("id", "7.1.0")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header(); got.Get(headerBytes) != strconv.Itoa(5*4096+700) ||
		got.Get("Content-Type") != "application/x-tar" {
		t.Errorf("headers %v", got)
	}
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("an answer that is cut off ends by %v", err)
			}
		}()
		h.ServeHTTP(broken{httptest.NewRecorder()}, r)
	}()
	fine := may
	may = func() (*api.CheckpointCopy, error) { return nil, &api.Problem{Code: api.CodeInternal, Detail: "no"} }
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("controllers that fail: %d", w.Code)
	}
	may = fine
	if err := os.MkdirAll(filepath.Join(s.Files(worker(1).ID), strings.Repeat("d/", maxDepth)), 0o700); err != nil {
		t.Fatal(err)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "it cannot be copied") {
		t.Errorf("a deep tree: %d %s", w.Code, w.Body)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := s.unchanged(worker(9).ID, root); err == nil {
		t.Error("a folder that is gone is unchanged")
	}
	if !s.mu.TryLock() {
		t.Fatal("the store stays locked")
	}
	s.mu.Unlock()
	if err := fmt.Sprint(s.unchanged(worker(1).ID, root)); !strings.Contains(err, "another attempt") {
		t.Errorf("another folder under its name: %s", err)
	}
}
