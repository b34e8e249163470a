package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/noded/container"
)

var (
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
	me    = container.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
)

func worker(attempt int) Worker {
	return Worker{ID: container.ID{Job: 7, Attempt: attempt}, User: me, Submitted: 1000}
}

func openStore(t *testing.T, node string, from Source) *Store {
	t.Helper()
	s, err := Open(filepath.Join(memoryDir(t), "checkpoints"), node, from, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.removals.Wait()
		if !s.mu.TryLock() {
			t.Error("the store stays locked")
		}
	})
	return s
}

// prepared is a store with the folder of an attempt.
func prepared(t *testing.T, node string, from Source, attempt int) *Store {
	t.Helper()
	s := openStore(t, node, from)
	if err := s.Prepare(t.Context(), worker(attempt), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// from is a store of another node as a source; change may change what comes from it.
type from struct {
	*Store
	change func([]byte) []byte
	calls  int
	fails  func(call int) error
}

func (f *from) Open(ctx context.Context, source *api.CheckpointSource, id container.ID) (*Stream, error) {
	f.calls++
	if f.fails != nil {
		if err := f.fails(f.calls); err != nil {
			return nil, err
		}
	}
	have, ok := f.latest(container.ID{Job: id.Job, Worker: id.Worker, Attempt: 1 << 30}, source.Attempt, 1000, anyUser)
	if !ok {
		return nil, ErrGone
	}
	root, err := os.OpenRoot(f.path(have))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	bytes, err := measure(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	b, err := stream(root)
	if err != nil {
		return nil, err
	}
	if f.change != nil {
		b = f.change(b)
	}
	return &Stream{io.NopCloser(strings.NewReader(string(b))), bytes}, nil
}

func stream(root *os.Root) ([]byte, error) {
	var b bytes.Buffer
	err := send(context.Background(), root, &b, func() error { return nil })
	return b.Bytes(), err
}

// source says that attempt 1 ran on node a.
var source = &api.CheckpointSource{Attempt: 1, Node: "a"}

// look describes all that a folder has.
func look(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %v %d:%d", strings.TrimPrefix(path, dir), info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x %v", b, info.ModTime())
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + to
		default:
			line += fmt.Sprintf(" %v", info.ModTime())
		}
		list = append(list, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// grow makes a random tree of what is carried as it is.
func grow(t *testing.T, r *rand.Rand, dir string, depth int) {
	t.Helper()
	name := func(i int) string {
		return filepath.Join(dir, strconv.Itoa(i)+[]string{"", " ü\n", strings.Repeat("n", 200), "\xff\"=\\"}[r.IntN(4)])
	}
	for i := range r.IntN(5) {
		at, err := name(i), error(nil)
		switch r.IntN(4) {
		case 0:
			if depth < 4 {
				err = os.Mkdir(at, 0o700)
				grow(t, r, at, depth+1)
			}
		case 1:
			err = os.Symlink([]string{"/etc/passwd", "..", "../../..", "nowhere", strings.Repeat("x/", 500)}[r.IntN(5)], at)
		default:
			b := make([]byte, []int{0, 1, 511, 512, 513, blockSize, 3*blockSize + 5}[r.IntN(7)])
			if r.IntN(2) == 0 {
				for k := range b {
					b[k] = byte(r.Uint32())
				}
			}
			err = os.WriteFile(at, b, fs.FileMode(r.IntN(0o1000)))
		}
		if info, lerr := os.Lstat(at); err == nil && lerr == nil && info.Mode()&fs.ModeSymlink == 0 {
			when := time.Unix(int64(r.IntN(1<<31)), int64(r.IntN(1e9)))
			err = errors.Join(os.Chmod(at, fs.FileMode(r.IntN(0o1000))|0o700), os.Chtimes(at, when, when))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestACopyEqualsTheOriginal copies random folders, and then cuts and changes the stream: what is not
// refused is the very same copy.
func TestACopyEqualsTheOriginal(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for range 20 {
		src := &from{Store: prepared(t, "a", nil, 1)}
		grow(t, r, src.Files(worker(1).ID), 0)
		image, err := src.NewImage(worker(1).ID)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(image, "pages-1.img"), "root's")
		put(t, filepath.Join(filepath.Dir(image), "0", "pages-1.img"), "of an earlier attempt")
		want := look(t, src.Files(worker(1).ID))
		dst := openStore(t, "b", src)
		if err := dst.Prepare(t.Context(), worker(2), source); err != nil {
			t.Fatal(err)
		}
		if got := look(t, dst.Files(worker(2).ID)); !slices.Equal(got, want) {
			t.Fatalf("copied:\n%q\nof:\n%q", got, want)
		}
		if err := dst.Prepare(t.Context(), worker(2), nil); err != nil { // again, when its source is gone
			t.Fatal(err)
		}
		image = dst.Image(worker(2).ID)
		if b, err := os.ReadFile(filepath.Join(image, "pages-1.img")); string(b) != "root's" {
			t.Fatalf("the image: %q, %v", b, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(image)); len(left) != 1 {
			t.Fatalf("an image of an earlier attempt is left: %v", left)
		}
		for k := range 30 {
			src.change = func(b []byte) []byte {
				b = bytes.Clone(b)
				i := r.IntN(len(b))
				if k%2 == 0 {
					return b[:i]
				}
				b[i] ^= byte(1 + r.IntN(255))
				return b
			}
			dst := openStore(t, "b", src)
			err := dst.Prepare(t.Context(), worker(2), source)
			if err == nil {
				if got := look(t, dst.Files(worker(2).ID)); !slices.Equal(got, want) {
					t.Fatalf("change %d was taken:\n%q\nof:\n%q", k, got, want)
				}
				continue
			}
			refused++
			dst.removals.Wait()
			if left, _ := os.ReadDir(dst.dir); len(left) != 0 {
				t.Fatalf("%v left %v", err, left)
			}
			if !strings.HasPrefix(err.Error(), "checkpoint of worker 0 of job 7, from node a: ") {
				t.Fatalf("it does not say what and from where: %v", err)
			}
		}
	}
	if refused < 200 {
		t.Errorf("only %d of 600 changes were refused", refused)
	}
}

// TestWhatIsNotCarried notices a device, a pipe, a socket or a set-id bit that comes along, and a hard
// link that is more than a copy.
func TestWhatIsNotCarried(t *testing.T) {
	src := &from{Store: prepared(t, "a", nil, 1)}
	dir := src.Files(worker(1).ID)
	put(t, filepath.Join(dir, "tool"), "x")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(filepath.Join(dir, "tool"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	must(os.Link(filepath.Join(dir, "tool"), filepath.Join(dir, "twin")))
	must(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666))
	if os.Geteuid() == 0 {
		must(unix.Mknod(filepath.Join(dir, "disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))))
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(err)
	defer unix.Close(fd)
	must(unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "sock")}))
	dst := openStore(t, "b", src)
	must(dst.Prepare(t.Context(), worker(2), source))
	entries, err := os.ReadDir(dst.Files(worker(2).ID))
	must(err)
	if len(entries) != 2 {
		t.Errorf("carried: %v", entries)
	}
	for _, e := range entries {
		info, err := e.Info()
		must(err)
		if info.Mode() != 0o755 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("%s: mode %v, %d links", e.Name(), info.Mode(), info.Sys().(*syscall.Stat_t).Nlink)
		}
	}
}

// TestASparseFileStaysSparse notices holes that come to take room.
func TestASparseFileStaysSparse(t *testing.T) {
	src := &from{Store: prepared(t, "a", nil, 1)}
	name := filepath.Join(src.Files(worker(1).ID), "memory")
	put(t, name, "begin")
	if err := os.Truncate(name, 64<<20); err != nil {
		t.Fatal(err)
	}
	dst := openStore(t, "b", src)
	if err := dst.Prepare(t.Context(), worker(2), source); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dst.Files(worker(2).ID), "memory"))
	if err != nil || info.Size() != 64<<20 || info.Sys().(*syscall.Stat_t).Blocks*512 > 1<<20 {
		t.Errorf("%v, takes %d bytes: %v", info.Size(), info.Sys().(*syscall.Stat_t).Blocks*512, err)
	}
	if err := os.Truncate(name, maxBytes+1); err != nil {
		t.Skipf("this file system has no such large files: %v", err)
	}
	if err := openStore(t, "c", src).Prepare(t.Context(), worker(2), source); err == nil ||
		!strings.Contains(err.Error(), "more than 16 TiB") {
		t.Errorf("a larger file than any disk: %v", err)
	}
}

// TestADeepTreeIsRefused notices directories in one another that cost root more than their number.
func TestADeepTreeIsRefused(t *testing.T) {
	src := &from{Store: prepared(t, "a", nil, 1)}
	put(t, filepath.Join(src.Files(worker(1).ID), strings.Repeat("d/", maxDepth+1), "f"), "x")
	err := openStore(t, "b", src).Prepare(t.Context(), worker(2), source)
	if err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("got %v", err)
	}
}

// entries is a stream of these entries with sums that are right.
func entries(t testing.TB, list ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	tw, sum := tar.NewWriter(&b), newSums()
	for _, h := range list {
		h.ModTime, h.Format = time.Unix(1, 0), tar.FormatPAX
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		sum.add(&h, nil)
	}
	text := sum.text()
	err := tw.WriteHeader(&tar.Header{Name: sumsFile, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = tw.Write(text)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileStreams notices an entry that a source may not send: outside the folder, in a link,
// twice, of another type, or with more rights.
func TestHostileStreams(t *testing.T) {
	files := tar.Header{Name: filesDir, Typeflag: tar.TypeDir, Mode: 0o755}
	outside := t.TempDir()
	for name, list := range map[string][]tar.Header{
		"the parent":          {files, {Name: "files/../../x", Typeflag: tar.TypeReg}},
		"an absolute path":    {files, {Name: outside + "/x", Typeflag: tar.TypeReg}},
		"another place":       {files, {Name: "owner.json", Typeflag: tar.TypeReg}},
		"a top directory":     {{Name: "more", Typeflag: tar.TypeDir, Mode: 0o755}},
		"no directory before": {files, {Name: "files/a/b", Typeflag: tar.TypeReg}},
		"through a link": {files, {Name: "files/l", Typeflag: tar.TypeSymlink, Linkname: outside, Mode: 0o777},
			{Name: "files/l/x", Typeflag: tar.TypeReg}},
		"through a local link": {files, {Name: "files/l", Typeflag: tar.TypeSymlink, Linkname: "../image", Mode: 0o777},
			{Name: "files/l/x", Typeflag: tar.TypeReg}},
		"a link again": {files, {Name: "files/l", Typeflag: tar.TypeSymlink, Linkname: outside + "/x", Mode: 0o777},
			{Name: "files/l", Typeflag: tar.TypeReg}},
		"a file twice":      {files, {Name: "files/a", Typeflag: tar.TypeReg}, {Name: "files/a", Typeflag: tar.TypeReg}},
		"a directory twice": {files, files},
		"a pipe":            {files, {Name: "files/p", Typeflag: tar.TypeFifo}},
		"a device":          {files, {Name: "files/d", Typeflag: tar.TypeBlock, Devmajor: 8}},
		"a hard link":       {files, {Name: "files/h", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}},
		"set-id":            {files, {Name: "files/s", Typeflag: tar.TypeReg, Mode: 0o4755}},
		"a name with dots":  {files, {Name: "files/./a", Typeflag: tar.TypeReg}},
	} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		r := receiver{user: me, room: func() error { return nil }}
		if err := r.receive(t.Context(), root, bytes.NewReader(entries(t, list...))); err == nil {
			t.Errorf("%s was taken: %v", name, look(t, dir))
		}
		root.Close()
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// FuzzReceive notices a stream that makes a file outside of its folder, or something else than files,
// directories and links.
func FuzzReceive(f *testing.F) {
	files := tar.Header{Name: filesDir, Typeflag: tar.TypeDir, Mode: 0o755}
	f.Add(entries(f, files, tar.Header{Name: "files/a", Typeflag: tar.TypeReg, Mode: 0o644}))
	f.Add(entries(f, files, tar.Header{Name: "files/l", Typeflag: tar.TypeSymlink, Linkname: "../..", Mode: 0o777}))
	f.Add(entries(f, files, tar.Header{Name: "files/d", Typeflag: tar.TypeDir, Mode: 0o700},
		tar.Header{Name: "files/d/../../x", Typeflag: tar.TypeReg}))
	f.Fuzz(func(t *testing.T, b []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // an entry may claim terabytes of zeros
		defer cancel()
		r := receiver{user: me, room: func() error { return nil }}
		_ = r.receive(ctx, root, bytes.NewReader(b))
		if list, err := os.ReadDir(outer); err != nil || len(list) != 1 {
			t.Fatalf("outside of its folder: %v, %v", list, err)
		}
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
				err = fmt.Errorf("%s is a %v", path, d.Type())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestWhichFolderAWorkerBeginsWith notices a worker that starts with another folder than its last
// one. It also notices a worker that gets the folder of an earlier job with the same id.
func TestWhichFolderAWorkerBeginsWith(t *testing.T) {
	src := &from{Store: prepared(t, "a", nil, 1)}
	put(t, filepath.Join(src.Files(worker(1).ID), "step"), "at a")
	b := prepared(t, "b", src, 3) // a launch that failed after the copy
	put(t, filepath.Join(b.Files(worker(3).ID), "step"), "copied")
	step := func(s *Store, attempt int) string {
		text, _ := os.ReadFile(filepath.Join(s.Files(worker(attempt).ID), "step")) // "": there is none
		return string(text)
	}
	prepare := func(s *Store, w Worker, from *api.CheckpointSource) {
		t.Helper()
		if err := s.Prepare(t.Context(), w, from); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the daemon was killed before it noted that
		prepare(b, worker(4), source)
	}
	if step(b, 4) != "copied" || len(b.List()) != 1 || src.calls != 0 {
		t.Errorf("with %q, folders %v, %d copies", step(b, 4), b.List(), src.calls)
	}
	prepare(b, worker(6), &api.CheckpointSource{Attempt: 5, Node: "a"})
	if step(b, 6) != "" || src.calls != 1 {
		t.Errorf("a folder from before its last run: %q", step(b, 6))
	}
	other := worker(6)
	other.Submitted++
	prepare(b, other, nil)
	if step(b, 6) != "" {
		t.Error("another job has the folder")
	}
	prepare(src.Store, worker(2), source)
	if step(src.Store, 2) != "at a" || len(src.List()) != 1 {
		t.Errorf("on its own node it begins with %q", step(src.Store, 2))
	}
	prepare(src.Store, worker(9), &api.CheckpointSource{Attempt: 8, Node: "a"})
	if step(src.Store, 9) != "" {
		t.Errorf("its folder is gone, but it begins with %q", step(src.Store, 9))
	}
}

// TestASourceThatDoesNotAnswerIsTriedAgain notices a copy that fails at once, or is tried for ever.
func TestASourceThatDoesNotAnswerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		silent := errors.New("no route to host")
		for _, test := range []struct {
			name  string
			fails func(int) error
			want  string
			least time.Duration
		}{
			{"it comes back", func(n int) error {
				if n < 5 {
					return silent
				}
				return ErrGone // as is said by one that answers
			}, "", 5 * time.Second},
			{"never", func(int) error { return silent }, "given up after 2m0s: no route to host", 100 * time.Second},
			{"refused", func(int) error { return ErrRefused }, "may not be copied", 0},
		} {
			s := &Store{dir: dir, node: "b", source: &from{fails: test.fails}, log: quiet, copies: make(chan struct{}, 1)}
			began := time.Now()
			err := s.Prepare(t.Context(), worker(2), source)
			took := time.Since(began)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) ||
				took < test.least || took > patience {
				t.Errorf("%s: %v after %v", test.name, err, took)
			}
			s.Remove(worker(2).ID)
			s.removals.Wait()
		}
	})
}

// untilCancelled is a stream that brings nothing until its context ends, as a connection does.
type untilCancelled struct{ done <-chan struct{} }

func (u untilCancelled) Read([]byte) (int, error) {
	<-u.done
	return 0, context.Canceled
}

// contextSource is a source whose stream ends with its context.
type contextSource struct{}

func (contextSource) Open(ctx context.Context, _ *api.CheckpointSource, _ container.ID) (*Stream, error) {
	return &Stream{io.NopCloser(untilCancelled{ctx.Done()}), 0}, nil
}

// TestACopyWithoutProgressEnds notices a stream that stops and holds a worker for ever, and a stop of
// the worker that has to wait for the copy.
func TestACopyWithoutProgressEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{dir: t.TempDir(), node: "b", source: contextSource{}, log: quiet, copies: make(chan struct{}, 1)}
		began := time.Now()
		err := s.Prepare(t.Context(), worker(2), source)
		took := time.Since(began)
		if err == nil || !strings.Contains(err.Error(), "no data came for 1m0s") || took != stallTime {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err = s.Prepare(ctx, worker(2), source); err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.removals.Wait()
	})
}

// TestAFullDisk notices a copy that takes the room of the journal, or leaves something behind.
func TestAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("rota-test", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	src := &from{Store: prepared(t, "a", nil, 1)}
	put(t, filepath.Join(src.Files(worker(1).ID), "model"), strings.Repeat("m", 16<<20))
	for _, understates := range []bool{false, true} {
		var with Source = src
		if understates {
			with = understating{src}
		}
		s, err := Open(filepath.Join(dir, "c"), "b", with, quiet)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Prepare(t.Context(), worker(2), source)
		if err == nil || !strings.Contains(err.Error(), " is full: ") ||
			!strings.Contains(err.Error(), "make room in") {
			t.Errorf("understated %v: %v", understates, err)
		}
		s.removals.Wait()
		if left, _ := os.ReadDir(s.dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if len(src.List()) != 1 {
		t.Error("the source has lost the folder")
	}
}

// understating says that a folder takes no room.
type understating struct{ *from }

func (u understating) Open(ctx context.Context, source *api.CheckpointSource, id container.ID) (*Stream, error) {
	s, err := u.from.Open(ctx, source, id)
	if err == nil {
		s.Bytes = 0
	}
	return s, err
}

// TestWhatIsLeftOfACopyIsRemoved notices a partial folder that outlives the daemon that copied it.
func TestWhatIsLeftOfACopyIsRemoved(t *testing.T) {
	s := prepared(t, "a", nil, 1)
	put(t, filepath.Join(s.dir, "7.2.0"+partialSuffix, "files", "x"), "half")
	put(t, filepath.Join(s.dir, "k"+goneSuffix, "x"), "old")
	again, err := Open(s.dir, "a", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	again.removals.Wait()
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 || len(again.List()) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestOthersCannotEnter notices a folder that other users can read.
func TestOthersCannotEnter(t *testing.T) {
	s := prepared(t, "a", nil, 1)
	for _, dir := range []string{s.dir, s.path(worker(1).ID), s.Files(worker(1).ID)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
}

// TestWhoMayCopy notices a folder that is sent to another caller than the node that the controllers
// name, or while it changes.
func TestWhoMayCopy(t *testing.T) {
	s := prepared(t, "a", nil, 1)
	put(t, filepath.Join(s.Files(worker(1).ID), "model"), "weights")
	node := identity.Caller{Machine: true, Role: "node", From: "b"}
	ok := &api.CheckpointCopy{Attempt: 2, Submitted: 1000}
	asked := ""
	for _, c := range []struct {
		name   string
		caller *identity.Caller
		id     string
		may    *api.CheckpointCopy
		err    error
		runs   bool
		want   int
	}{
		{"the next node", &node, "7.1.0", ok, nil, false, 200},
		{"no caller", nil, "7.1.0", ok, nil, false, 403},
		{"a user of that node", &identity.Caller{Role: "node", From: "b"}, "7.1.0", ok, nil, false, 403},
		{"a controller", &identity.Caller{Machine: true, Role: "controller", From: "c"}, "7.1.0", ok, nil, false, 403},
		{"a login node", &identity.Caller{Machine: true, Role: "login", From: "l"}, "7.1.0", ok, nil, false, 403},
		{"another node", &node, "7.1.0", nil, &api.Problem{Code: api.CodeDenied, Detail: "no"}, false, 403},
		{"no controller", &node, "7.1.0", nil, errors.New("no controller answers"), false, 503},
		{"it runs", &node, "7.1.0", ok, nil, true, 409},
		{"another job with its id", &node, "7.1.0", &api.CheckpointCopy{Attempt: 2, Submitted: 999}, nil, false, 404},
		{"a later run", &node, "7.2.0", &api.CheckpointCopy{Attempt: 3, Submitted: 1000}, nil, false, 404},
		{"another worker", &node, "7.1.1", ok, nil, false, 404},
		{"a path", &node, "../7.1.0", ok, nil, false, 400},
	} {
		h := &Server{Store: s, Runs: func(container.ID) bool { return c.runs },
			May: func(_ context.Context, id container.ID, node string) (*api.CheckpointCopy, error) {
				asked = id.String() + " for " + node
				return c.may, c.err
			}}
		ctx := t.Context()
		if c.caller != nil {
			ctx = identity.WithCaller(ctx, *c.caller)
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, Path+"x", nil)
		r.SetPathValue("id", c.id)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want || w.Code != 200 && strings.Contains(w.Body.String(), "weights") {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		if c.want == 200 && (asked != "7.1.0 for b" || !strings.Contains(w.Body.String(), "weights")) {
			t.Errorf("%s: asked %q, got %q", c.name, asked, w.Body)
		}
	}
}

// TestAFolderThatChangesIsNotSentWhole notices a copy of a folder that another attempt was given while
// it was sent.
func TestAFolderThatChangesIsNotSentWhole(t *testing.T) {
	s := prepared(t, "a", nil, 1)
	root, err := os.OpenRoot(s.path(worker(1).ID))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := s.unchanged(worker(1).ID, root); err != nil {
		t.Errorf("it has not changed: %v", err)
	}
	if err := s.Prepare(t.Context(), worker(2), source); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := send(t.Context(), root, &b, func() error { return s.unchanged(worker(1).ID, root) }); err == nil {
		t.Error("it was sent whole")
	}
	r := receiver{user: me, room: func() error { return nil }}
	to, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := r.receive(t.Context(), to, &b); !errors.Is(err, errEnd) {
		t.Errorf("what was sent of it was taken: %v", err)
	}
}

// TestAnImageThatIsBeingWritten notices an order to save that is repeated and removes what the first one
// has begun to write.
func TestAnImageThatIsBeingWritten(t *testing.T) {
	s := prepared(t, "a", nil, 1)
	id := worker(1).ID
	dir, err := s.NewImage(id)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(container.PartOfImage(dir), "pages-1.img"), "half")
	put(t, filepath.Join(filepath.Dir(dir), "0", "pages-1.img"), "of an earlier attempt")
	if again, err := s.NewImage(id); err != nil || again != dir {
		t.Errorf("%s, then %s, %v", dir, again, err)
	}
	want := filepath.Base(container.PartOfImage(dir))
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 || left[0].Name() != want {
		t.Errorf("left: %v", left)
	}
}
