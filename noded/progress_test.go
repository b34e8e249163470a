package noded

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/convergence"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/report"
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
		if len(w.samples) != 2 || w.samples[0].Step != 2 || w.samples[0].Metrics["loss"] != 0.5 ||
			w.samples[0].Problem == "" || w.samples[1].Step != 3 || w.samples[1].Problem != w.samples[0].Problem {
			t.Fatalf("got %+v", w.samples)
		}
	})
}

// TestBadProgressIsReported shows that a file of gigabytes of nonsense is reported as bad, once
// while it does not grow. It costs this daemon a bounded amount of memory.
func TestBadProgressIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	scene(t, func(t *testing.T, w *world) {
		w.progress = path
		for job := range int64(8) {
			w.assign(wid(job+1), true)
		}
		settle(5 * time.Second)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		before := memory()
		size := int64(4 << 30)
		for range 20 {
			if _, err := f.WriteAt([]byte(strings.Repeat("loss NaN\n", 100_000)), size); err != nil {
				t.Skipf("no file of %d bytes can be made here: %v", size, err)
			}
			size += 4 << 30
			settle(4 * time.Second)
		}
		settle(time.Minute)
		if grown := memory() - before; grown > 50_000_000 {
			t.Errorf("memory has grown by %d bytes", grown)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.samples); n != 20*8 || w.samples[n-1].Problem == "" || w.samples[n-1].Step != 0 {
			t.Errorf("got %d samples", n)
		}
	})
}

// memory returns how many bytes this process has of the system, without those that it has given back.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys) - int64(m.HeapReleased)
}

// TestFindingsAreReported shows that findings are reported once while no call fails, and before the
// end of their worker.
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
			w.findings[wid(1)] = append(w.findings[wid(1)],
				container.Finding{Policy: policy, Line: "line of " + policy})
		}
		find("ecc")
		settle(5 * time.Second)
		w.mu.Lock()
		if len(w.found) != 1 || w.found[0].Policy != "ecc" || w.found[0].Message != "line of ecc" ||
			w.found[0].State != model.WorkerRunning {
			t.Errorf("got %+v", w.found)
		}
		w.down = true
		w.mu.Unlock()
		find("oom") // its last line of output
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

// TestProgressClassIsReported shows that a job's class is reported when it changes, also if no
// controller answers for a while. A job that names no metric has no class.
func TestProgressClassIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	scene(t, func(t *testing.T, w *world) {
		w.progress = path
		named, silent := wid(1), wid(2)
		for _, id := range []container.ID{named, silent} {
			a := w.assign(id, true)
			p := &jobspec.Progress{Metric: "loss"}
			if id == silent {
				p = nil
			}
			w.change(func() {
				a.Spec = &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Progress: p}}}}}
			})
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		train := func(from, to int) {
			for s := from; s < to; s += 5 {
				fmt.Fprintf(file, `{"step":%d,"metrics":{"loss":%g}}`+"\n", s+1, math.Exp(-float64(s)/60))
				settle(5 * time.Second)
			}
		}
		train(0, 60)
		w.change(func() { w.down = true })
		train(60, 400)
		w.change(func() { w.down = false })
		train(400, 600)
		w.mu.Lock()
		defer w.mu.Unlock()
		var got []convergence.Class
		for _, r := range w.classes {
			got = append(got, r.Class)
			if report.WorkerOf(r) != named || r.State != model.WorkerRunning {
				t.Errorf("reported is %+v", r)
			}
		}
		if !slices.Equal(slices.Compact(got), convergence.Classes) {
			t.Errorf("reported are %v", got)
		}
	})
}

// TestReachedIsNotLost shows that a step that an array waits for is kept while no controller
// answers.
func TestReachedIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	scene(t, func(t *testing.T, w *world) {
		w.progress, w.stop10 = path, true
		w.assign(wid(1), true)
		settle(5 * time.Second)
		w.change(func() { w.down = true })
		lines := "{\"step\":9,\"metrics\":{\"loss\":3}}\n{\"step\":11,\"metrics\":{\"loss\":2}}\n" +
			"{\"step\":12,\"metrics\":{\"loss\":1}}\n"
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		settle(30 * time.Second)
		other := w.assign(wid(2), true)
		w.change(func() { w.down = false })
		settle(30 * time.Second)
		if got := w.state(wid(2)); got != model.WorkerRunning {
			t.Errorf("another worker is %s: %+v", got, other)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.samples); n == 0 || w.samples[n-1].Reached == nil || w.samples[n-1].Reached.Step != 11 ||
			w.samples[n-1].Reached.Value != 2 {
			t.Errorf("got %+v", w.samples)
		}
	})
}
