package noded

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
)

func TestProgressIsSampled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	scene(t, func(t *testing.T, w *world) {
		w.progress = path
		w.assign(wid(1), true)
		write := func(s string) {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(s); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		write("{\"step\":1}\n{\"step\":2,\"metrics\":{\"loss\":0.5}}\nnonsense\n{\"step\":")
		settle(5 * time.Second)
		write("3}\n")
		settle(5 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.samples) != 2 || w.samples[0].Step != 2 || w.samples[0].Metrics["loss"] != 0.5 || w.samples[1].Step != 3 {
			t.Fatalf("got %+v", w.samples)
		}
	})
}

// TestFindingsAreReported once while nothing goes wrong, and ahead of the end of their worker.
func TestFindingsAreReported(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		settle(5 * time.Second)
		find := func(policy string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.findings == nil {
				w.findings = map[container.ID][]container.Finding{}
			}
			w.findings[wid(1)] = append(w.findings[wid(1)], container.Finding{Policy: policy, Line: "line of " + policy})
		}
		find("ecc")
		settle(5 * time.Second)
		w.mu.Lock()
		if len(w.found) != 1 || w.found[0].Policy != "ecc" || w.found[0].Message != "line of ecc" || w.found[0].State != cluster.WorkerRunning {
			t.Errorf("got %+v", w.found)
		}
		w.down = true
		w.mu.Unlock()
		find("oom") // the last thing it says
		w.leave(wid(1), container.Exit{Code: 1})
		settle(time.Minute)
		w.change(func() { w.down = false })
		settle(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.found) != 2 || w.found[1].Policy != "oom" || a.result == nil || a.result.ExitCode != 1 {
			t.Errorf("got %+v, then %+v", w.found, a.result)
		}
	})
}

// TestReachedIsNotLost while no controller answers: an array decides by it.
func TestReachedIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	scene(t, func(t *testing.T, w *world) {
		w.progress, w.stop10 = path, true
		w.assign(wid(1), true)
		settle(5 * time.Second)
		w.change(func() { w.down = true })
		lines := "{\"step\":9,\"metrics\":{\"loss\":3}}\n{\"step\":11,\"metrics\":{\"loss\":2}}\n{\"step\":12,\"metrics\":{\"loss\":1}}\n"
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		settle(30 * time.Second)
		other := w.assign(wid(2), true)
		w.change(func() { w.down = false })
		settle(30 * time.Second)
		if got := w.state(wid(2)); got != cluster.WorkerRunning {
			t.Errorf("another worker is %s: %+v", got, other)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.samples); n == 0 || w.samples[n-1].Reached == nil || w.samples[n-1].Reached.Step != 11 || w.samples[n-1].Reached.Value != 2 {
			t.Errorf("got %+v", w.samples)
		}
	})
}
