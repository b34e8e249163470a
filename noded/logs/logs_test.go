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
	"testing"
	"testing/synctest"
	"time"

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
		r = r.WithContext(identity.WithCaller(r.Context(), identity.Caller{Role: map[bool]string{true: "controller",
			false: "node"}[test.trusted]}))
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

func TestOldLogsGo(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for n, name := range []string{"old", "older", "new", "newest"} {
		path := filepath.Join(dir, name, "stdout")
		write(t, path, strings.Repeat("x", 1000))
		age := []time.Duration{5 * time.Hour, 9 * time.Hour, 2 * time.Hour, time.Hour}[n]
		for _, p := range []string{path, filepath.Dir(path)} {
			if err := os.Chtimes(p, now, now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(filepath.Join(dir, "new"))
	if err != nil {
		t.Fatal(err)
	}
	each := 1000 + info.Size()
	for _, step := range []struct {
		age   time.Duration
		limit int64
		left  string
	}{{10 * time.Hour, 10 * each, "new newest old older"}, {8 * time.Hour, 10 * each, "new newest old"},
		{8 * time.Hour, 2 * each, "new newest"}, {8 * time.Hour, each, "newest"}} {
		if err := removeOldLogs(dir, now, step.age, step.limit); err != nil {
			t.Fatal(err)
		}
		entries, _ := os.ReadDir(dir)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != step.left {
			t.Fatalf("got %q, want %q", got, step.left)
		}
	}
}

// TestAPathOfTheUsersIsReadAsTheUser does what an attacker does: its job's log path is a link to a
// file of root's, or of another user's. It notices a server that opens such a path as root, whether the
// container is still there or only where its log was is known.
func TestAPathOfTheUsersIsReadAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	for d := dir; d != "/" && strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	store := &Store{Containers: filepath.Join(dir, "containers"), Dir: filepath.Join(dir, "logs")}
	out, secret := filepath.Join(dir, "out"), filepath.Join(dir, "secret")
	write(t, secret, "root's\n")
	if err := os.Symlink(secret, out); err != nil {
		t.Fatal(err)
	}
	id := container.ID{Job: 1, Attempt: 1}
	user := container.User{UID: 65534, GID: 65534}
	bundle := container.Bundle{Settings: container.Settings{ID: id, User: user,
		Tasks: []container.Task{{Log: container.LogFiles{Stdout: out, Stderr: out}}}}, Tasks: []container.TaskBundle{{}}}
	if err := container.WriteBundle(filepath.Join(store.Containers, id.String()), bundle); err != nil {
		t.Fatal(err)
	}
	get := func(stream string) (int, string) {
		mux := http.NewServeMux()
		mux.Handle("GET /v1/logs/{id}", &Server{Store: store, Live: func(container.ID) bool { return false }})
		r := httptest.NewRequest("GET", "/v1/logs/1.1.0?stream="+stream, nil)
		r = r.WithContext(identity.WithCaller(r.Context(), identity.Caller{Role: "controller"}))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, kept := range []bool{false, true} {
		if kept {
			if err := store.Keep(id); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(store.Containers, id.String())); err != nil {
				t.Fatal(err)
			}
		}
		for _, stream := range []string{"stdout", "stderr"} {
			if code, text := get(stream); code != 404 || strings.Contains(text, "root's") ||
				!strings.Contains(text, "permission denied") {
				t.Errorf("kept %t, %s: %d, %s", kept, stream, code, text)
			}
		}
	}
	if err := os.Chown(secret, int(user.UID), int(user.GID)); err != nil {
		t.Fatal(err)
	}
	if code, text := get("stdout"); code != 200 || text != "root's\n" {
		t.Errorf("its own file: %d, %s", code, text)
	}
}
