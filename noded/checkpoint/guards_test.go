package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
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
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// TestWhatASourceAnswers has the daemon of another node answer in each way, at its present address, and
// another node answer there.
func TestWhatASourceAnswers(t *testing.T) {
	cluster := pkitest.New(t)
	var answer func(http.ResponseWriter)
	path := ""
	var answering sync.WaitGroup
	source := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answering.Add(1)
		defer answering.Done()
		path = r.URL.Path
		answer(w)
	}))
	source.TLS = cluster.Member(pki.Node, "a").Server(pki.Node)
	source.StartTLS()
	t.Cleanup(source.Close)
	at := source.Listener.Addr().String()
	problem := func(status int, code, detail string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { api.WriteProblem(w, status, code, detail) }
	}
	plain := func(size string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set(headerBytes, size)
			_, _ = w.Write([]byte("content"))
		}
	}
	much := make([]byte, 64<<20) // it waits in the handler until its reader has closed the connection
	for _, c := range []struct {
		name   string
		node   string
		now    string // its present address
		answer func(http.ResponseWriter)
		want   error
		text   string
	}{
		{"a folder", "a", at, plain("7"), nil, ""},
		{"an empty one", "a", at, plain("0"), nil, ""},
		{"its address is not known anew", "a", "", plain("7"), nil, ""},
		{"less than nothing", "a", at, plain("-1"), ErrRefused, "have the size"},
		{"no size", "a", at, plain(""), ErrRefused, "have the size"},
		{"another node", "b", at, plain("7"), nil, "answered there instead"},
		{"no folder", "a", at, problem(404, api.CodeNotFound, "none"), ErrGone, "none"},
		{"not for this node", "a", at, problem(403, api.CodeDenied, "no"), ErrRefused, "no"},
		{"a folder that cannot be carried", "a", at, problem(422, api.CodeInvalid, "deep"), ErrRefused, "deep"},
		{"no leader", "a", at, problem(503, api.CodeNoLeader, "later"), nil, "later"},
		{"it runs", "a", at, problem(409, api.CodeWrongState, "runs"), nil, "runs"},
		{"no word", "a", at, problem(404, api.CodeNotFound, ""), nil, "404 Not Found"},
		{"another text", "a", at, func(w http.ResponseWriter) { w.WriteHeader(502) }, nil, "502 Bad Gateway"},
		{"no size of much", "a", at, func(w http.ResponseWriter) { _, _ = w.Write(much) }, ErrRefused, "have the size"},
		{"a long text", "a", at, func(w http.ResponseWriter) { w.WriteHeader(502); _, _ = w.Write(much) }, nil,
			"502 Bad Gateway"},
	} {
		answer = c.answer
		client := &Client{Credential: cluster.Member(pki.Node, "x"), Addr: func(string) string { return c.now }}
		addr := at
		if c.now != "" {
			addr = "127.0.0.1:1" // it has moved since
		}
		s, err := client.Open(t.Context(), &api.CheckpointSource{Node: c.node, Addr: addr, Attempt: 2},
			container.ID{Job: 7, Attempt: 2, Worker: 1})
		if c.text == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			var b bytes.Buffer
			if _, err := b.ReadFrom(s); err != nil || b.String() != "content" || s.Bytes != 7 && c.name != "an empty one" ||
				path != Path+"7.2.1" {
				t.Errorf("%s: %q of %d bytes from %s, %v", c.name, b.String(), s.Bytes, path, err)
			}
			s.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.text) || errors.Is(err, ErrGone) != errors.Is(c.want, ErrGone) ||
			errors.Is(err, ErrRefused) != errors.Is(c.want, ErrRefused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	closed := make(chan struct{})
	go func() { answering.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("a connection whose answer was refused stays open")
	}
	if _, err := tls.Dial("tcp", at, cluster.Member(pki.Node, "x").ClientOf(pki.Node, "a")); err != nil {
		t.Error(err)
	}
}

// TestWhichFolderIsTheLatest has folders of several attempts, workers, jobs and users. The latest
// folder of the same worker wins, from the least attempt on and before the one that is to start.
func TestWhichFolderIsTheLatest(t *testing.T) {
	s := openStore(t, "a", nil)
	for _, f := range []struct {
		id        container.ID
		uid       uint32
		submitted model.UnixMS
	}{
		{container.ID{Job: 7, Attempt: 2}, 5, 1000}, {container.ID{Job: 7, Attempt: 4}, 5, 1000},
		{container.ID{Job: 7, Attempt: 5, Worker: 1}, 5, 1000}, {container.ID{Job: 8, Attempt: 5}, 5, 1000},
		{container.ID{Job: 7, Attempt: 6}, 6, 1000}, {container.ID{Job: 7, Attempt: 7}, 5, 1001},
	} {
		marker := `{"uid":` + strconv.Itoa(int(f.uid)) + `,"submitted":` + strconv.FormatInt(int64(f.submitted), 10) + `}`
		put(t, filepath.Join(s.path(f.id), markerFile), marker)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "7.8.0"), 0o700); err != nil { // without a marker
		t.Fatal(err)
	}
	put(t, filepath.Join(s.dir, "7.9.0"), "no folder")
	for _, c := range []struct {
		before, least int
		uid           uint32
		want          int // attempt; 0: none
	}{
		{9, 1, 5, 4}, {9, 4, 5, 4}, {9, 5, 5, 0}, {4, 1, 5, 2}, {5, 1, 5, 4}, {3, 2, 5, 2}, {2, 1, 5, 0}, {9, 1, 6, 6},
		{9, 1, anyUser, 6}, {9, 1, 9, 0},
	} {
		got, ok := s.latest(container.ID{Job: 7, Attempt: c.before}, c.least, 1000, c.uid)
		if got.Attempt != c.want || ok != (c.want > 0) {
			t.Errorf("%+v: %v, %t", c, got, ok)
		}
	}
}

// TestWhichImageIsGoneOnFrom: the newest of an attempt before. Images from before the last run are removed,
// and parts of those that are not written now.
func TestWhichImageIsGoneOnFrom(t *testing.T) {
	images := func(s *Store, attempt int, names ...string) string {
		id := container.ID{Job: 7, Attempt: attempt}
		for _, n := range names {
			if err := os.MkdirAll(filepath.Join(s.path(id), imageDir, n), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(s.path(id), imageDir)
	}
	part := func(n string) string { return n + container.PartOfImage("") }
	for _, c := range []struct {
		names []string
		want  string
		left  []string // after attempt 3 was the last
	}{
		{nil, "", nil},
		{[]string{"1", "3", "4", "5"}, "4", []string{"3", "4", "5"}},
		{[]string{"2"}, "2", nil},
		{[]string{"5"}, "", []string{"5"}},
		{[]string{"0", "-1"}, "", nil},
		{[]string{"3", "x", part("4"), part("5"), part("2")}, "3", []string{"3", part("5")}},
	} {
		s := openStore(t, "a", nil)
		dir := images(s, 5, c.names...)
		put(t, filepath.Join(dir, "4.txt"), "")
		id := container.ID{Job: 7, Attempt: 5}
		want := ""
		if c.want != "" {
			want = filepath.Join(dir, c.want)
		}
		if got := s.Image(id); got != want {
			t.Errorf("of %v it goes on from %s", c.names, got)
		}
		s.dropImages(id, 3)
		s.removals.Wait()
		var left []string
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if err != nil || !slices.Equal(left, c.left) {
			t.Errorf("of %v there are left %v, %v", c.names, left, err)
		}
	}
	s := openStore(t, "a", nil)
	put(t, filepath.Join(images(s, 5), "3"), "a file")
	if got := s.Image(container.ID{Job: 7, Attempt: 5}); got != "" {
		t.Errorf("it goes on from a file: %s", got)
	}
}

// TestHowMuchStaysFree compares what a copy needs with what is free: a twentieth of the disk, or 10 GiB, stays.
func TestHowMuchStaysFree(t *testing.T) {
	s := &Store{dir: "d", node: "b"}
	const large = 1 << 50
	for _, c := range []struct {
		need, free, all int64
		fits            bool
	}{
		{0, 5, 100, true}, {1, 5, 100, false}, {0, 4, 100, false}, {95, 100, 100, true}, {96, 100, 100, false},
		{large - reserveMax, large, large, true}, {large - reserveMax + 1, large, large, false},
		{0, reserveMax, 20 * reserveMax, true}, {0, reserveMax, 21 * reserveMax, true},
		{0, reserveMax - 1, 20 * reserveMax, false}, {0, reserveMax - 1, 19 * reserveMax, true},
	} {
		err := s.leaves(c.need, c.free, c.all)
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "the disk of node b is full") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for err, full := range map[error]bool{unix.ENOSPC: true, unix.EDQUOT: true, unix.EIO: false} {
		got := noRoom(err)
		if !errors.Is(got, err) || strings.Contains(got.Error(), "make room") != full {
			t.Errorf("%v: %v", err, got)
		}
	}
	if noRoom(nil) != nil {
		t.Error("no error means a full disk")
	}
}

// TestWhereAnEntryMayLie places entries of a stream: in a directory that has come, under a plain name.
func TestWhereAnEntryMayLie(t *testing.T) {
	deep := make([]*tar.Header, maxDepth)
	name := filesDir
	for i := range deep {
		deep[i] = &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o700}
		name += "/d"
	}
	first := func(n int) []*tar.Header { return deep[:n] }
	for _, c := range []struct {
		name  string
		kind  byte
		mode  int64
		open  []*tar.Header
		fits  bool
		stays int // of the open directories
	}{
		{"files", tar.TypeDir, 0o777, nil, true, 0}, {"image", tar.TypeDir, 0, nil, true, 0},
		{"other", tar.TypeDir, 0, nil, false, 0}, {"files", tar.TypeReg, 0, nil, false, 0},
		{"files", tar.TypeDir, 0o1777, nil, false, 0}, {"image", tar.TypeDir, 0, first(2), true, 0},
		{"files/x", tar.TypeReg, 0o644, nil, false, 0}, {"files/x", tar.TypeReg, 0o644, first(1), true, 1},
		{"files/x", tar.TypeReg, 0o644, first(3), true, 1}, {"files/d/x", tar.TypeReg, 0o644, first(3), true, 2},
		{"files/e/x", tar.TypeReg, 0, first(3), false, 3}, {"files//x", tar.TypeReg, 0, first(1), false, 1},
		{"files/../x", tar.TypeReg, 0, first(1), false, 1}, {"../files", tar.TypeDir, 0, nil, false, 0},
		{"/files", tar.TypeDir, 0, nil, false, 0}, {"files/x", tar.TypeReg, 0o4644, first(1), false, 1},
		{deep[maxDepth-1].Name + "/x", tar.TypeReg, 0, first(maxDepth), true, maxDepth},
		{deep[maxDepth-1].Name + "/x", tar.TypeDir, 0, first(maxDepth), false, maxDepth},
		{deep[maxDepth-2].Name + "/x", tar.TypeDir, 0, first(maxDepth - 1), true, maxDepth - 1},
	} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range c.open {
			if err := root.Mkdir(h.Name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r := receiver{user: me, root: root, open: slices.Clone(c.open)}
		err = r.place(&tar.Header{Name: c.name, Typeflag: c.kind, Mode: c.mode})
		if (err == nil) != c.fits || len(r.open) != c.stays {
			t.Errorf("%c %s, mode %o, in %d directories: %v, %d stay open", c.kind, c.name, c.mode, len(c.open), err,
				len(r.open))
		}
		root.Close()
	}
	r := receiver{user: container.User{UID: 71, GID: 72}}
	for name, own := range map[string]bool{"files": true, "files/image": true, "image": false, "image/x": false,
		"images/x": true} {
		uid, gid := r.owner(name)
		if own != (uid == 71 && gid == 72) || !own && (uid != os.Geteuid() || gid != os.Getegid()) {
			t.Errorf("%s is of %d:%d", name, uid, gid)
		}
	}
	for n, want := range map[int]int{199: 199, 200: 200, 201: 203} {
		if got := len(shortName(strings.Repeat("n", n))); got != want {
			t.Errorf("a name of %d bytes is written in %d", n, got)
		}
	}
}

// TestWhenRoomIsAskedFor writes blocks: room is asked for once so many bytes were written, holes left out.
func TestWhenRoomIsAskedFor(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	asked := 0
	full := errors.New("full")
	var answer error
	r := receiver{room: func() error { asked++; return answer }}
	ones, holes := bytes.Repeat([]byte{1}, blockSize), make([]byte, blockSize)
	for i := range roomEvery/blockSize - 1 {
		if err := errors.Join(r.write(f, holes), r.write(f, ones)); err != nil || asked != 0 {
			t.Fatalf("block %d: asked %d times, %v", i, asked, err)
		}
	}
	if err := r.write(f, ones); err != nil || asked != 1 || r.written != 0 {
		t.Errorf("after %d bytes it was asked for %d times, %v", roomEvery, asked, err)
	}
	answer, r.written = full, roomEvery-1
	if err := r.write(f, ones[:1]); !errors.Is(err, full) {
		t.Errorf("on a full disk: %v", err)
	}
	r.written = roomEvery - 2
	if err := r.write(f, ones[:1]); err != nil {
		t.Errorf("a byte before it is asked for: %v", err)
	}
}

// TestWhatAFolderTakes measures entries, files that are sparse, and links, and gives up when told to.
func TestWhatAFolderTakes(t *testing.T) {
	s := prepared(t, "a", nil, 1)
	dir := s.Files(worker(1).ID)
	put(t, filepath.Join(dir, "small"), "x")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "sparse"), 1<<40), os.Symlink("x", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(s.path(worker(1).ID))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if got, err := measure(t.Context(), root); err != nil || got != 4*4096+1 {
		t.Errorf("a directory, a file of a byte, one of a hole and a link take %d bytes, %v", got, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(done, root); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	for size, fits := range map[int64]bool{maxBytes - 1<<40 - 1: true, maxBytes - 1<<40: false} {
		err := os.Truncate(filepath.Join(dir, "large"), size)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(os.WriteFile(filepath.Join(dir, "large"), nil, 0o600),
				os.Truncate(filepath.Join(dir, "large"), size))
		}
		if err != nil {
			t.Skipf("this file system has no files of %d bytes: %v", size, err)
		}
		if _, err := measure(t.Context(), root); (err == nil) != fits {
			t.Errorf("with files of %d bytes: %v", size+1<<40+1, err)
		}
	}
}
