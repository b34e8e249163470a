package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// freePort returns a loopback port that nothing listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// outcome is what one worker did.
type outcome struct {
	code int
	err  error
	out  string
}

// runGang runs a gang of world workers in this process and returns each one's outcome by rank.
func runGang(ctx context.Context, t *testing.T, world, attempt int, args ...string) []outcome {
	t.Helper()
	return runWith(ctx, t, nil, world, attempt, args...)
}

// runWith is runGang with variables of its own.
func runWith(ctx context.Context, t *testing.T, more map[string]string, world, attempt int, args ...string) []outcome {
	t.Helper()
	env := map[string]string{
		"WORLD_SIZE": strconv.Itoa(world), "ROTA_ATTEMPT": strconv.Itoa(attempt), "ROTA_JOB_ID": "7",
		"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": freePort(t),
	}
	maps.Copy(env, more)
	got := make([]outcome, world)
	var wg sync.WaitGroup
	for rank := range world {
		wg.Go(func() {
			var out bytes.Buffer
			code, err := run(ctx, args, func(k string) string {
				if k == "RANK" {
					return strconv.Itoa(rank)
				}
				return env[k]
			}, &out)
			got[rank] = outcome{code, err, out.String()}
		})
	}
	wg.Wait()
	return got
}

var lossLine = regexp.MustCompile(`step (\d+) of \d+  loss (\S+)`)

// losses reads worker 0's output.
func losses(t *testing.T, o outcome) map[string]string {
	t.Helper()
	if o.err != nil {
		t.Fatalf("worker 0: %v\n%s", o.err, o.out)
	}
	m := map[string]string{}
	for _, line := range lossLine.FindAllStringSubmatch(o.out, -1) {
		m[line[1]] = line[2]
	}
	return m
}

func TestLossHasTheSameBitsForAnyNumberOfWorkers(t *testing.T) {
	want := losses(t, runGang(t.Context(), t, 1, 1, "-steps=30", "-log=1")[0])
	if len(want) != 30 {
		t.Fatalf("a run of 30 steps printed %d losses", len(want))
	}
	if want["1"] == want["30"] {
		t.Fatal("the loss does not change: nothing is learned")
	}
	for _, world := range []int{2, 3, 4, 8} {
		got := losses(t, runGang(t.Context(), t, world, 1, "-steps=30", "-log=1")[0])
		for step, loss := range want {
			if got[step] != loss {
				t.Errorf("%d workers, step %s: loss %s, with one worker %s", world, step, got[step], loss)
			}
		}
	}
}

// A run that is stopped again and again, and resumed with another number of workers each time, ends
// with the weights of a run that was left alone.
func TestCheckpointsKeepTheWeights(t *testing.T) {
	alone, often := t.TempDir(), t.TempDir()
	runGang(t.Context(), t, 1, 1, "-steps=60", "-dir="+alone)
	worlds := []int{1, 2, 4, 3}
	code := exitCheckpointed
	for attempt := 1; code == exitCheckpointed; attempt++ {
		if attempt > 100 {
			t.Fatal("no end after 100 attempts")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan []outcome)
		go func() {
			done <- runGang(ctx, t, worlds[attempt%len(worlds)], attempt, "-steps=60", "-every=0", "-pause=5ms", "-dir="+often)
		}()
		stopAfterSteps(t, often, attempt, 10, cancel)
		got := <-done
		cancel()
		for rank, o := range got {
			if o.err != nil || o.code != got[0].code {
				t.Fatalf("attempt %d worker %d: code %d, worker 0 has %d: %v", attempt, rank, o.code, got[0].code, o.err)
			}
		}
		code = got[0].code
	}
	if code != 0 {
		t.Fatalf("the last attempt ended with %d", code)
	}
	a, errA := os.ReadFile(filepath.Join(alone, "checkpoint"))
	b, errB := os.ReadFile(filepath.Join(often, "checkpoint"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("weights differ after stops and resumes: %v", errors.Join(errA, errB))
	}
}

// stopAfterSteps calls stop once the attempt's heartbeat has come n steps further than where it
// began, or is nearly through.
func stopAfterSteps(t *testing.T, dir string, attempt, n int, stop func()) {
	t.Helper()
	first := -1
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		b, _ := os.ReadFile(filepath.Join(dir, "heartbeat"))
		for line := range strings.Lines(string(b)) {
			var at, worker, step int
			var ms int64
			if _, err := fmt.Sscan(line, &at, &worker, &step, &ms); err != nil || at != attempt {
				continue
			}
			if first < 0 {
				first = step
			}
			if step >= first+n || step >= 50 {
				stop()
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Error("the heartbeat did not advance")
	stop()
}

func TestProgressHasALineAStep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "progress.jsonl")
	code, err := run(t.Context(), []string{"-steps=5", "-every=2", "-dir=" + dir}, func(k string) string {
		return map[string]string{"ROTA_PROGRESS_FILE": path}[k]
	}, &bytes.Buffer{})
	if code != 0 || err != nil {
		t.Fatal(code, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(b, []byte("\n")); got != 6 || !bytes.HasSuffix(b, []byte("\n{\"finished\":true}\n")) {
		t.Errorf("%d lines for 5 steps and the end:\n%s", got, b)
	}
	if !bytes.Contains(b, []byte(`"step":4,"saved_step":4`)) {
		t.Errorf("the checkpoint of step 4 is not reported:\n%s", b)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	runGang(t.Context(), t, 1, 1, "-steps=1", "-dir="+dir)
	env := func(pairs map[string]string) func(string) string {
		return func(k string) string { return pairs[k] }
	}
	for name, c := range map[string]struct {
		args   []string
		getenv func(string) string
		code   int
		text   string
	}{
		"unknown flag":     {[]string{"-nope"}, env(nil), 2, "nope"},
		"no steps":         {[]string{"-steps=-1"}, env(nil), 2, "at least"},
		"too many workers": {nil, env(map[string]string{"WORLD_SIZE": "9"}), 2, "raise -shards"},
		"rank is a word":   {nil, env(map[string]string{"RANK": "x"}), 2, `$RANK is "x"`},
		"another run":      {[]string{"-seed=2", "-dir=" + dir}, env(nil), 1, "another run"},
		"no directory":     {[]string{"-steps=1", "-dir=" + dir + "/checkpoint/none"}, env(nil), 1, "not a directory"},
	} {
		code, err := run(t.Context(), c.args, c.getenv, &bytes.Buffer{})
		if code != c.code || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: code %d, error %v; want %d and %q", name, code, err, c.code, c.text)
		}
	}
}

// A worker of an older attempt is not let in, and the gang goes on without noticing.
func TestStrangersAreTurnedAway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	addr := net.JoinHostPort("127.0.0.1", freePort(t))
	old := make(chan error, 1)
	go func() {
		g, err := join(ctx, 1, 2, addr, "7.1")
		if err == nil {
			_, _, err = readFrame(g.peers[0].r, frameStart)
			g.close()
		}
		old <- err
	}()
	head := make(chan error, 1)
	var zero *gang
	go func() {
		var err error
		zero, err = join(ctx, 0, 2, addr, "7.2")
		head <- err
	}()
	if err := <-old; err == nil {
		t.Error("a worker of attempt 1 was let into attempt 2")
	}
	one, err := join(ctx, 1, 2, addr, "7.2")
	if err := errors.Join(err, <-head); err != nil {
		t.Fatal(err)
	}
	one.close()
	zero.close()
}

func FuzzDecode(f *testing.F) {
	s := shape{Inputs: 2, Hidden: 2, Batch: 4, Shards: 2, Seed: 3}
	f.Add(checkpoint{5, s, newModel(s).w}.encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		if err == nil && !bytes.Equal(c.encode(), b) {
			t.Errorf("%x was accepted but is not what encode writes", b)
		}
	})
}
