package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/noded/container"
)

// storeAt returns a store with real directories.
func storeAt(t *testing.T, most int64) *Store {
	t.Helper()
	dir := t.TempDir()
	s := &Store{Containers: filepath.Join(dir, "containers"), Dir: filepath.Join(dir, "logs"), Max: most}
	if err := errors.Join(os.Mkdir(s.Containers, 0o755), os.Mkdir(s.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return s
}

// aged writes a log file of so many bytes that is of an age.
func aged(t *testing.T, path string, bytes int, at time.Time) {
	t.Helper()
	write(t, path, strings.Repeat("x", bytes))
	for _, p := range []string{path, filepath.Dir(path)} {
		if err := os.Chtimes(p, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// answerOf asks a store's server for a log, as a controller does.
func answerOf(t *testing.T, s *Store, id string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /v1/logs/{id}", &Server{Store: s, Live: func(container.ID) bool { return false }})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/v1/logs/"+id, nil)
	mux.ServeHTTP(w, r.WithContext(identity.WithCaller(r.Context(), identity.Caller{Role: "controller"})))
	return w.Code, w.Body.String()
}

// TestTheOldestLogsGoFirst notices a node whose logs outgrow their bound, and one that removes
// newer logs first or other files. It also notices removals that the node's log and the answer to a
// reader do not mention.
func TestTheOldestLogsGoFirst(t *testing.T) {
	now := time.Now()
	s := storeAt(t, 0)
	for n, age := range []time.Duration{5 * time.Hour, 9 * time.Hour, 2 * time.Hour, time.Hour, 8 * 24 * time.Hour} {
		aged(t, filepath.Join(s.Dir, fmt.Sprintf("%d.1.0", n+1), "stdout"), 100_000, now.Add(-age))
	}
	aged(t, filepath.Join(s.Dir, "other", "file"), 100_000, now.Add(-9*time.Hour))
	aged(t, filepath.Join(s.Containers, "9.1.0", "log", "stdout"), 100_000, now)
	for _, step := range []struct {
		max        int64
		left, said string
		silent     string
	}{
		{0, "1.1.0 2.1.0 3.1.0 4.1.0 other removed.jsonl", "allocs=5.1.0", "--max-logs"},
		{550_000, "1.1.0 2.1.0 3.1.0 4.1.0 other removed.jsonl", "", "removed"},
		{470_000, "1.1.0 3.1.0 4.1.0 other removed.jsonl", "allocs=2.1.0", "running"},
		{370_000, "3.1.0 4.1.0 other removed.jsonl", "allocs=1.1.0", "running"},
		{150_000, "other removed.jsonl", `allocs="3.1.0 4.1.0"`, "running"},
	} {
		s.Max = step.max
		var said bytes.Buffer
		left, err := s.sweep(now, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if got := namesIn(t, s.Dir); got != step.left {
			t.Errorf("at most %d: got %q, want %q", step.max, got, step.left)
		}
		if !strings.Contains(said.String(), step.said) || strings.Contains(said.String(), step.silent) {
			t.Errorf("at most %d: the log of the node says %q", step.max, &said)
		}
		if step.max > 0 && left > step.max {
			t.Errorf("at most %d: %d bytes are left", step.max, left)
		}
	}
	for id, want := range map[string]string{
		"5.1.0": "the output of 5.1.0 was removed at " + now.UTC().Format(time.RFC3339) +
			": a node keeps the logs of ended jobs for 7 days",
		"2.1.0": ": the logs on this node took more than 150000B (--max-logs), so the oldest were removed",
		"7.1.0": "no stdout of 7.1.0 on this node: ",
	} {
		if code, text := answerOf(t, s, id); code != http.StatusNotFound || !strings.Contains(text, want) ||
			!strings.Contains(text, api.CodeNotFound) {
			t.Errorf("%s: %d, %s", id, code, text)
		}
	}
	if info, err := os.Stat(filepath.Join(s.Dir, removalsFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
}

// TestRunningContainersAlone notices a node whose disk the logs of running containers fill: their
// older files go, and what they write to now stays.
func TestRunningContainersAlone(t *testing.T) {
	now := time.Now()
	s := storeAt(t, 350_000)
	log := filepath.Join(s.Containers, "1.1.0", "log")
	other := filepath.Join(s.Containers, "2.1.0", "log", "main")
	aged(t, log+"/stdout", 100_000, now)
	aged(t, log+"/stdout.1", 100_000, now.Add(-time.Hour))
	aged(t, log+"/stdout.2", 100_000, now.Add(-3*time.Hour))
	aged(t, other+"/stderr", 100_000, now.Add(-9*time.Hour))
	aged(t, other+"/stderr.1", 100_000, now.Add(-2*time.Hour))
	var said bytes.Buffer
	left, err := s.sweep(now, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil || left > s.Max {
		t.Fatalf("%d bytes are left, %v", left, err)
	}
	if namesIn(t, log) != "stdout stdout.1" || namesIn(t, other) != "stderr" {
		t.Errorf("left are %s and %s", namesIn(t, log), namesIn(t, other))
	}
	if want := `number=2 bytes=200000 allocs="1.1.0 2.1.0"`; !strings.Contains(said.String(), want) {
		t.Errorf("the log of the node says %q", &said)
	}
	s.Max = 1
	if left, err := s.sweep(now, slog.New(slog.DiscardHandler)); err != nil || left < 200_000 || left > 250_000 {
		t.Errorf("%d bytes are left, %v", left, err)
	}
	if namesIn(t, log) != "stdout" || namesIn(t, other) != "stderr" {
		t.Errorf("left are %s and %s", namesIn(t, log), namesIn(t, other))
	}
}

// TestTheBoundOfLogsIsWatched notices a node that looks at its logs rarely: a job fills the disk
// within minutes. It also notices a warning that is repeated every time.
func TestTheBoundOfLogsIsWatched(t *testing.T) {
	s := storeAt(t, 250_000)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said bytes.Buffer
		done := make(chan error)
		go func() { done <- s.RunRetention(ctx, slog.New(slog.NewTextHandler(&said, nil))) }()
		end := func(n int) {
			id := container.ID{Job: int64(n), Attempt: 1}
			write(t, filepath.Join(s.Containers, id.String(), "log", "stdout"), strings.Repeat("x", 100_000))
			if err := s.Keep(id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(checkInterval) // of the bubble
			synctest.Wait()
		}
		for n := range 3 {
			end(n)
		}
		if got := namesIn(t, s.Dir); got != "1.1.0 2.1.0 removed.jsonl" && got != "2.1.0 removed.jsonl" {
			t.Errorf("left are %s", got)
		}
		for n := range 40 { // running ones that cannot be cut
			write(t, filepath.Join(s.Containers, fmt.Sprintf("%d.1.0", 100+n), "log", "stdout"), strings.Repeat("x", 10_000))
		}
		time.Sleep(10 * checkInterval)
		synctest.Wait()
		if got := namesIn(t, s.Dir); got != "removed.jsonl" {
			t.Errorf("left are %s", got)
		}
		if n := strings.Count(said.String(), "level=WARN"); n != 1 || strings.Contains(said.String(), "level=ERROR") {
			t.Errorf("%d warnings: %s", n, &said)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestNotesOfRemovalsAreBounded notices a file of removed logs that grows for ever, or that loses
// the newest ones.
func TestNotesOfRemovalsAreBounded(t *testing.T) {
	s := storeAt(t, 1000)
	batch := make([]storedLog, 50_000)
	now := time.Now()
	for n := range 4 {
		for i := range batch {
			batch[i].id = container.ID{Job: int64(n*len(batch) + i), Attempt: 1}
		}
		if err := s.noteRemovals(now, map[reason][]storedLog{reasonMax: batch}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{removalsFile, removalsFile + ".1"} {
		if info, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || info.Size() > 3*removalsMax {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, ok := s.removalOf(batch[len(batch)-1].id); !ok {
		t.Error("the newest is not noted")
	}
	if _, ok := s.removalOf(container.ID{Job: 1, Attempt: 2}); ok {
		t.Error("what was not removed is noted")
	}
}
