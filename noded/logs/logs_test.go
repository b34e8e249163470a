package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/noded/container"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestLogRanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	write(t, path+".2", "one\ntwo\n")
	write(t, path+".1", "three\nfour\n")
	write(t, path, "five\nsix")
	all := "one\ntwo\nthree\nfour\nfive\nsix"
	lines := strings.SplitAfter(all, "\n")
	read := func(q query) string {
		r, err := openLog(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		var out bytes.Buffer
		if err := errors.Join(r.seek(q), r.copyTo(t.Context(), &out, false, func() bool { return false })); err != nil {
			t.Fatal(err)
		}
		if n := r.skipped(); n+int64(out.Len()) != int64(len(all)) {
			t.Errorf("%+v: %d bytes skipped and %d sent of %d", q, n, out.Len(), len(all))
		}
		return out.String()
	}
	for n := range len(lines) + 2 {
		want := strings.Join(lines[max(0, len(lines)-n):], "")
		if got := read(query{tail: n}); got != want {
			t.Errorf("tail %d: got %q, want %q", n, got, want)
		}
	}
	for offset := range len(all) + 2 {
		want := all[min(offset, len(all)):]
		if got := read(query{tail: -1, offset: int64(offset)}); got != want {
			t.Errorf("offset %d: got %q, want %q", offset, got, want)
		}
	}
}

func TestTailOfLargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	line := strings.Repeat("x", 70_000) + "\n"
	write(t, path, line+line+line)
	r, err := openLog(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	var out bytes.Buffer
	if err := errors.Join(r.seek(query{tail: 2}), r.copyTo(t.Context(), &out, false,
		func() bool { return false })); err != nil {
		t.Fatal(err)
	}
	if out.String() != line+line {
		t.Fatalf("got %d bytes", out.Len())
	}
}

// TestFollowOverRotations reads a log that is rotated, and at the end moved away, while it is read.
func TestFollowOverRotations(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "stdout")
		write(t, path, "line 0\n")
		var mu sync.Mutex
		live := true
		r, err := openLog(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		done := make(chan error)
		go func() {
			done <- r.copyTo(context.Background(), &out, true,
				func() bool { mu.Lock(); defer mu.Unlock(); return live })
		}()
		want := "line 0\n"
		for n := range 20 {
			text := fmt.Sprintf("line %d\n", n+1)
			want += text
			write(t, path, text)
			if n%3 == 0 {
				for k := 5; k > 0; k-- {
					if _, err := os.Stat(fmt.Sprintf("%s.%d", path, k)); err == nil {
						rename(t, fmt.Sprintf("%s.%d", path, k), fmt.Sprintf("%s.%d", path, k+1))
					}
				}
				rename(t, path, path+".1")
				write(t, path, "")
			}
			if n%2 == 0 {
				time.Sleep(time.Second) // of the bubble
			}
		}
		mu.Lock()
		live = false
		mu.Unlock()
		rename(t, path, path+".moved")
		if err := <-done; err != nil || out.String() != want {
			t.Fatalf("got %v, %q; want %q", err, out.String(), want)
		}
		r.close()
	})
}

func TestLogsAreForTheTrusted(t *testing.T) {
	root := t.TempDir()
	store := &Store{Containers: filepath.Join(root, "containers"), Dir: filepath.Join(root, "logs")}
	id := container.ID{Job: 1, Attempt: 1}
	write(t, filepath.Join(store.Dir, id.String(), "stdout"), "hello\n")
	mux := http.NewServeMux()
	mux.Handle("GET /v1/logs/{id}", &Server{Store: store, Live: func(container.ID) bool { return false }})
	tests := []struct {
		path    string
		trusted bool
		status  int
		body    string
	}{
		{"/v1/logs/1.1.0", true, 200, "hello\n"},
		{"/v1/logs/1.1.0?follow=true", true, 200, "hello\n"},
		{"/v1/logs/1.1.0", false, 403, ""},
		{"/v1/logs/1.2.0", true, 404, ""},
		{"/v1/logs/..%2f1.1.0", true, 400, ""},
		{"/v1/logs/1.1.0?stream=../x", true, 400, ""},
		{"/v1/logs/1.1.0?tail=x", true, 400, ""},
	}
	for _, test := range tests {
		r := httptest.NewRequest("GET", test.path, nil)
		caller := identity.Caller{Role: map[bool]string{true: "controller", false: "node"}[test.trusted]}
		r = r.WithContext(identity.WithCaller(r.Context(), caller))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != test.status || test.body != "" && w.Body.String() != test.body {
			t.Errorf("%s: got %d, %q", test.path, w.Code, w.Body.String())
		}
	}
}

func TestUsersLogIsReadAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	for d := dir; d != "/" && strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret, own := filepath.Join(dir, "secret"), filepath.Join(dir, "own")
	write(t, secret, "root's\n")
	write(t, own, "mine\n")
	if err := os.Chown(own, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	nobody := &container.User{UID: 65534, GID: 65534}
	if _, err := openLog(secret, nobody); !errors.Is(err, os.ErrPermission) {
		t.Fatalf("got %v", err)
	}
	r, err := openLog(own, nobody)
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	if f, err := os.Open(secret); err != nil {
		t.Fatalf("the daemon itself has lost its rights: %v", err)
	} else {
		f.Close()
	}
}

// TestLogsAreForCallersThatAreKnown notices a request that is answered although its caller is not
// known.
func TestLogsAreForCallersThatAreKnown(t *testing.T) {
	store := &Store{Containers: t.TempDir(), Dir: t.TempDir()}
	write(t, filepath.Join(store.Dir, "1.1.0", "stdout"), "hello\n")
	mux := http.NewServeMux()
	mux.Handle("GET /v1/logs/{id}", &Server{Store: store, Live: func(container.ID) bool { return false }})
	ask := func(ctx context.Context) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/v1/logs/1.1.0", nil).WithContext(ctx))
		return w.Code
	}
	if got := ask(t.Context()); got != http.StatusForbidden {
		t.Errorf("without a caller: %d", got)
	}
	for role, want := range map[string]int{"controller": 200, "node": 403, "login": 403, "": 403} {
		if got := ask(identity.WithCaller(t.Context(), identity.Caller{Role: role})); got != want {
			t.Errorf("role %q: %d", role, got)
		}
	}
}

// TestALogIsFoundWhileItIsRotated notices a log that seems to be missing, or that lacks its older
// files, because one of them is being renamed.
func TestALogIsFoundWhileItIsRotated(t *testing.T) {
	for _, files := range []string{".1 .2", " .2 .3", " .1"} {
		path := filepath.Join(t.TempDir(), "stdout")
		names := strings.Split(files, " ")
		for _, name := range names {
			write(t, path+name, "x\n")
		}
		r, err := openLog(path, nil)
		if err != nil {
			t.Errorf("%q: %v", names, err)
			continue
		}
		if len(r.files) != len(names) {
			t.Errorf("%q: %d files are found", names, len(r.files))
		}
		r.close()
	}
}

// usersJob writes the bundle of a container whose output goes to paths of the user's.
func usersJob(t *testing.T, s *Store, id container.ID, user container.User, log container.LogFiles) {
	t.Helper()
	err := container.WriteBundle(filepath.Join(s.Containers, id.String()), container.Bundle{
		Settings: container.Settings{ID: id, User: user, Tasks: []container.Task{{Name: "main", Log: log}}},
		Tasks:    []container.TaskBundle{{}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestALogPathShowsNoFileOfOthers notices a log path that is opened as root when it is read. A job
// would name another account's file as its log and read it with rota logs. This holds while the
// container exists, and after it is gone.
func TestALogPathShowsNoFileOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret, own := filepath.Join(dir, "secret"), filepath.Join(dir, "own")
	write(t, secret, "root's\n")
	write(t, own, "mine\n")
	if err := os.Chown(own, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	store := &Store{Containers: filepath.Join(dir, "containers"), Dir: filepath.Join(dir, "logs")}
	if err := errors.Join(os.Mkdir(store.Containers, 0o755), os.Mkdir(store.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	server := &Server{Store: store}
	id := container.ID{Job: 1, Attempt: 2, Worker: 3}
	usersJob(t, store, id, container.User{UID: 65534, GID: 65534}, container.LogFiles{Stdout: own, Stderr: secret})
	for _, gone := range []bool{false, true} {
		if gone {
			if err := errors.Join(store.Keep(id), os.RemoveAll(filepath.Join(store.Containers, id.String()))); err != nil {
				t.Fatal(err)
			}
		}
		r, err := server.find(id, query{stream: "stdout", tail: -1})
		if err != nil {
			t.Errorf("gone %v: the user's own: %v", gone, err)
		} else {
			r.close()
		}
		if r, err := server.find(id, query{stream: "stderr", tail: -1}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("gone %v: root's file: %+v, %v", gone, r, err)
		}
	}
}

// TestStreamsOfAUsersPaths notices a stream that is looked for in the other's file, and kept
// settings, with what a job runs, that other accounts may read.
func TestStreamsOfAUsersPaths(t *testing.T) {
	dir := t.TempDir()
	old := unix.Umask(0)
	defer unix.Umask(old)
	store := &Store{Containers: filepath.Join(dir, "containers"), Dir: filepath.Join(dir, "logs")}
	if err := errors.Join(os.Mkdir(store.Containers, 0o755), os.Mkdir(store.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	server := &Server{Store: store}
	me := container.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	out, errs := filepath.Join(dir, "out"), filepath.Join(dir, "err")
	write(t, out, "of out\n")
	write(t, errs, "of err\n")
	for n, c := range []struct {
		log            container.LogFiles
		stdout, stderr string // what is read; "-": nothing is there
	}{
		{container.LogFiles{Stdout: out, Stderr: errs}, "of out\n", "of err\n"},
		{container.LogFiles{Stdout: out, Join: true}, "of out\n", "of out\n"},
		{container.LogFiles{Stderr: errs}, "kept\n", "of err\n"},
		{container.LogFiles{Stdout: out}, "of out\n", "-"},
	} {
		id := container.ID{Job: int64(n), Attempt: 1}
		usersJob(t, store, id, me, c.log)
		kept := filepath.Join(store.Containers, id.String(), "log", "stdout")
		if c.log.Stdout == "" {
			write(t, kept, "kept\n")
		}
		for range 2 { // before and after it is gone
			for stream, want := range map[string]string{"stdout": c.stdout, "stderr": c.stderr} {
				r, err := server.find(id, query{stream: stream, tail: -1})
				if want == "-" {
					if !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%+v: %s: %v", c.log, stream, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%+v: %s: %v", c.log, stream, err)
					continue
				}
				var got bytes.Buffer
				err = r.copyTo(t.Context(), &got, false, func() bool { return false })
				if r.close(); err != nil || got.String() != want {
					t.Errorf("%+v: %s: %q, %v", c.log, stream, &got, err)
				}
			}
			for range 2 { // it may be called again
				if err := store.Keep(id); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(filepath.Join(store.Containers, id.String())); err != nil {
				t.Fatal(err)
			}
		}
		for path, mode := range map[string]os.FileMode{"": 0o700, settingsFile: 0o600} {
			info, err := os.Stat(filepath.Join(store.Dir, id.String(), path))
			if err != nil || info.Mode().Perm() != mode {
				t.Errorf("%q: %v, %v", path, info, err)
			}
		}
	}
}

// TestFollowingALogThatIsNotThereYet notices a request that fails because its container is being
// created, and one that waits for a container that will write nothing more.
func TestFollowingALogThatIsNotThereYet(t *testing.T) {
	dir := t.TempDir()
	store := &Store{Containers: filepath.Join(dir, "containers"), Dir: filepath.Join(dir, "logs")}
	id := container.ID{Job: 1, Attempt: 1}
	synctest.Test(t, func(t *testing.T) {
		var live atomic.Bool
		server := &Server{Store: store, Live: func(container.ID) bool { return live.Load() }}
		if _, err := server.open(t.Context(), id, query{stream: "stdout", follow: true, tail: -1}); err == nil {
			t.Error("what has ended is waited for")
		}
		live.Store(true)
		if _, err := server.open(t.Context(), id, query{stream: "stdout", tail: -1}); err == nil {
			t.Error("without follow it waits")
		}
		go func() {
			time.Sleep(time.Minute) // of the bubble
			write(t, filepath.Join(store.Containers, id.String(), "log", "stdout"), "late\n")
		}()
		begin := time.Now()
		r, err := server.open(t.Context(), id, query{stream: "stdout", follow: true, tail: -1})
		if err != nil || time.Since(begin) < time.Minute {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		r.close()
	})
}

// TestQueriesAreParsed notices a tail of nothing that becomes the whole log.
func TestQueriesAreParsed(t *testing.T) {
	for text, want := range map[string]query{
		"": {stream: "stdout", tail: -1}, "tail=0&stream=stderr": {stream: "stderr"},
		"follow=true&tail=5&offset=7&task=a": {task: "a", stream: "stdout", follow: true, tail: 5, offset: 7},
	} {
		if got, err := parseQuery(httptest.NewRequest("GET", "/?"+text, nil)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"follow=x", "tail=x", "offset=x", "stream=stdin"} {
		if got, err := parseQuery(httptest.NewRequest("GET", "/?"+text, nil)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestAFollowedLogOpensOneFile: however many files of a log were rotated, a reader that waits for more
// opens only the newest one. It notices a rotation all the same.
func TestAFollowedLogOpensOneFile(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "stdout")
	for n := 1; n <= 50; n++ {
		write(t, fmt.Sprintf("%s.%d", log, n), "old\n")
	}
	write(t, log, "new\n")
	r, err := openLog(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for len(r.files) > 1 {
		r.closeFirst()
	}
	opened := 0
	openAs = func(path string, user *container.User) (*os.File, error) {
		opened++
		return container.OpenAs(path, user)
	}
	defer func() { openAs = container.OpenAs }()
	if more, err := r.openNewer(); more || err != nil || opened != 1 {
		t.Errorf("nothing was rotated: %v, %v, and %d files were opened", more, err, opened)
	}
	if err := os.Remove(log + ".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, log, "newer\n")
	if more, err := r.openNewer(); !more || err != nil || len(r.files) != 2 {
		t.Errorf("after a rotation: %v, %v, %d files", more, err, len(r.files))
	}
}
