package server

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
)

// TestProcessorTimeRefills: a user that has taken more than its part waits for as long as the part
// takes to come, and one that has saved some may take it at once, but no more than that.
func TestProcessorTimeRefills(t *testing.T) {
	var p processorTime
	now := time.Unix(1_000_000, 0)
	const percent = 50 // 5 s at once
	if w := p.wait(1, percent, now); w != 0 {
		t.Errorf("a user that has asked nothing waits %v", w)
	}
	for _, step := range []struct {
		later, took, wait time.Duration
	}{
		{0, 5 * time.Second, 0},                            // all that it had saved
		{0, time.Millisecond, 2 * time.Millisecond},        // 1 ms of half a core takes 2 ms
		{time.Second, 0, 0},                                // half a second has come
		{0, 509 * time.Millisecond, 20 * time.Millisecond}, // 499 ms were left
		{time.Hour, 6 * time.Second, 2 * time.Second},
	} {
		now = now.Add(step.later)
		p.spend(1, step.took, percent, now)
		if w := p.wait(1, percent, now); w != step.wait {
			t.Errorf("after %+v the user waits %v", step, w)
		}
	}
	if w := p.wait(2, percent, now); w != 0 {
		t.Errorf("another user waits %v", w)
	}
}

// TestAMeterCountsWorkAlone: processor time is what a request computes, not the time for which it
// waits for others.
func TestAMeterCountsWorkAlone(t *testing.T) {
	s := &Server{}
	x := &exchange{s: s, meter: meter{on: true}}
	x.meter.start()
	work := func() {
		for begin := threadTime(); threadTime()-begin < 30*time.Millisecond; {
		}
	}
	work()
	x.idle(func() {
		done := make(chan struct{})
		go func() { defer close(done); work() }()
		<-done
	})
	x.idle(work) // as one that waits for a client, on this thread
	x.meter.stop()
	if x.meter.sum < 30*time.Millisecond || x.meter.sum > 55*time.Millisecond {
		t.Errorf("30 ms of work, and 30 ms of another goroutine, count %v", x.meter.sum)
	}
	for what, machine := range map[string]bool{"a user": false, "a member of the cluster": true} {
		y := &exchange{s: s, rt: &route{}, caller: &identity.Caller{Machine: machine, User: model.Identity{UID: 9}}}
		y.rt.Out = reflect.TypeFor[int]()
		if machine == y.counts() {
			t.Errorf("%s: counted %t", what, y.counts())
		}
	}
}

// TestTurns: a user does one thing at a time, users do not wait for each other, and a client that
// leaves waits no longer.
func TestTurns(t *testing.T) {
	var turns turns
	end, err := turns.take(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := turns.take(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	other()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := turns.take(gone, 1); err == nil {
		t.Error("two turns of one user at once")
	}
	next := make(chan func())
	go func() {
		end, err := turns.take(context.Background(), 1)
		if err != nil {
			t.Error(err)
		}
		next <- end
	}()
	end()
	(<-next)()
	if len(turns.taken) != 0 {
		t.Errorf("%d turns are left", len(turns.taken))
	}
}
