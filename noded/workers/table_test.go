package workers

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/run"
)

// noMeter measures nothing. It implements Meter.
type noMeter struct{}

func (noMeter) Report(container.ID, *journal.Measures) {}
func (noMeter) Forget(container.ID)                    {}

// tableOf returns a table with a runner that is enough for these tests.
func tableOf(c Config) *Table {
	c.Log, c.Outbox = slog.New(slog.DiscardHandler), report.NewOutbox()
	t := New(c)
	t.Meter = noMeter{}
	t.Runner = &run.Runner{Log: c.Log, GPUs: gpus.New(gpus.Config{Log: c.Log}), OpenSocket: t.OpenSocket,
		Stopping: t.Stopping, LeaseEnd: t.LeaseEnd}
	return t
}

// wid returns the first worker of a job.
func wid(job int64) container.ID { return container.ID{Job: job, Attempt: 1} }

var errFault = errors.New("injected fault")

func newJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// TestContainersOfAnotherCluster: the journal may have only the result of a container of a cluster
// that the node has left. The node still knows it, because the present controllers may use its id
// again.
func TestContainersOfAnotherCluster(t *testing.T) {
	j := newJournal(t)
	for _, id := range []string{"1.1.0", "2.1.0"} {
		if err := j.Append(journal.Record{Op: journal.Intend, ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Append(journal.Record{Op: journal.Final, ID: "2.1.0",
		Final: &model.WorkerReport{Job: 2, Attempt: 1, State: model.WorkerExited}}); err != nil {
		t.Fatal(err)
	}
	for foreign, want := range map[bool]int{false: 1, true: 2} {
		a := tableOf(Config{Journal: j, Foreign: foreign})
		if err := a.Recover(); err != nil {
			t.Fatal(err)
		}
		if len(a.workers) != want {
			t.Errorf("foreign %t: %d workers, %+v", foreign, len(a.workers), a.workers)
		}
	}
}

// manyChanges is a runtime with changes that one list shows.
type manyChanges struct {
	container.Runtime
	changes chan container.ID
	lists   chan int
}

func (m manyChanges) Changes() <-chan container.ID { return m.changes }

func (m manyChanges) List(context.Context) ([]container.Status, error) {
	m.lists <- len(m.changes)
	return nil, nil
}

// TestOneListShowsManyChanges notices a daemon that lists all containers once for each change.
func TestOneListShowsManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manyChanges{changes: make(chan container.ID, 100), lists: make(chan int, 100)}
		for n := range int64(100) {
			m.changes <- wid(n)
		}
		a := tableOf(Config{Journal: newJournal(t), Runtime: m})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Watch(ctx) }()
		synctest.Wait()
		if n := len(m.lists); n != 1 {
			t.Errorf("%d lists", n)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// stoppedBuild has the daemon stop while it makes a bundle.
type stoppedBuild struct {
	run.Bundles
	stop func()
}

func (b stoppedBuild) Build(ctx context.Context, _ container.ID, _ *api.Alloc, _ []int, _ []model.GPU) (string,
	error,
) {
	b.stop()
	return "", ctx.Err()
}

func (stoppedBuild) Owner(a *api.Alloc) (model.Identity, error) { return a.Owner, nil }

// TestADaemonThatStopsWhileItCreates notices a container that is taken for made, or for failed,
// because its daemon was stopped.
func TestADaemonThatStopsWhileItCreates(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	j := newJournal(t)
	cores := machine.NewCores([][]int{{0, 1}})
	a := tableOf(Config{Journal: j, Cores: cores})
	a.Runner.Journal, a.Runner.Bundles, a.Runner.Cores = j, stoppedBuild{stop: cancel}, cores
	a.Start(ctx)
	w := held{a}.of(wid(1))
	f := w.Facts
	f.Desired = &api.Alloc{Job: 1, Attempt: 1, Request: model.Request{Active: model.Vector{Cores: 1}}}
	done, err := a.Runner.Do(ctx, wid(1), &f, reconcile.Action{Kind: reconcile.Create})
	if !errors.Is(err, context.Canceled) || done == nil {
		t.Fatalf("it ends with %v", err)
	}
	done(&w.Facts)
	if e, ok := j.Entry(wid(1).String()); !ok || e.Final != nil || !w.Journaled || w.Actual != "" ||
		len(w.Entry.Cores) != 1 {
		t.Errorf("entry %+v, %+v", e, w.Facts)
	}
}

// renewals is a runtime that counts orders to renew a lease.
type renewals struct {
	container.Runtime
	n atomic.Int64
}

func (r *renewals) Renew(context.Context, container.ID, time.Time) error {
	r.n.Add(1)
	return nil
}

// TestALeaseIsNotRenewedAtEachAnswer notices a node whose shims get an order for every answer of the
// controllers, and a lease that is renewed too late.
func TestALeaseIsNotRenewedAtEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &renewals{}
		a := tableOf(Config{Journal: newJournal(t), Runtime: rt})
		a.Start(t.Context())
		w := held{a}.of(wid(1))
		w.busy, w.Actual, w.Journaled, w.Entry.Started = true, container.Running, true, true // no step is due
		answer := &api.NodeAllocs{Allocs: []api.Alloc{{Job: 1, Attempt: 1, Released: true}}}
		for second := range 125 { // the term is 600 s, of which a tenth passes between renewals
			a.Apply(answer, time.Now(), follow.Lease{AskedAt: follow.Now(), Term: 10 * time.Minute})
			synctest.Wait()
			// the boot clock is the machine's also in the bubble, so that an order may be one answer late
			if n := rt.n.Load(); second < 60 && n != 1 || n > int64(1+second/60) || second > 62 && n < 2 {
				t.Fatalf("after %d s there were %d orders", second, n)
			}
			time.Sleep(time.Second) // of the bubble
		}
		a.KeepAll(false)
		if !w.Kept || a.desiredKnown {
			t.Errorf("a state that went back: kept %t", w.Kept)
		}
		a.actions.Wait()
	})
}

// TestAWaitingWorkerIsNotDelayed notices a worker whose cores are free now, and that still waits
// because it had to wait before.
func TestAWaitingWorkerIsNotDelayed(t *testing.T) {
	a := tableOf(Config{Journal: newJournal(t)})
	for n, waiting := range []bool{true, false} {
		w := held{a}.of(wid(int64(n)))
		w.waiting, w.busy, w.notBefore = waiting, true, time.Now().Add(time.Hour)
	}
	held{a}.retryWaiting()
	if !a.workers[wid(0)].notBefore.IsZero() || a.workers[wid(1)].notBefore.IsZero() {
		t.Errorf("they wait until %v and %v", a.workers[wid(0)].notBefore, a.workers[wid(1)].notBefore)
	}
}

// lateList is a runtime whose list was made before something happened.
type lateList struct {
	container.Runtime
	meanwhile func()
	list      []container.Status
	err       error
}

func (l lateList) List(context.Context) ([]container.Status, error) {
	l.meanwhile()
	return l.list, l.err
}

// TestAListThatIsOld notices a container that is taken for gone, or for not started, because the
// list was made before it was.
func TestAListThatIsOld(t *testing.T) {
	id := wid(1)
	a := tableOf(Config{Journal: newJournal(t)})
	a.Runtime = lateList{meanwhile: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		held{a}.setStatus(held{a}.of(id), container.Status{ID: id, State: container.Created})
	}}
	inspect := func() {
		t.Helper()
		if err := a.inspectAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if inspect(); a.workers[id] == nil || a.workers[id].Actual != container.Created {
		t.Errorf("a container that was made meanwhile: %+v", a.workers[id])
	}
	older := []container.Status{{ID: id, State: container.Created}}
	a.Runtime = lateList{list: older, meanwhile: func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		held{a}.setStatus(a.workers[id], container.Status{ID: id, State: container.Running})
	}}
	if inspect(); a.workers[id].Actual != container.Running {
		t.Errorf("a container that was started meanwhile: %+v", a.workers[id])
	}
	a.Runtime = lateList{meanwhile: func() {}}
	if inspect(); a.workers[id].Actual != "" {
		t.Errorf("a container that is gone: %+v", a.workers[id])
	}
	a.Runtime = lateList{meanwhile: func() {}, err: errFault}
	if err := a.inspectAll(t.Context()); !errors.Is(err, errFault) || !strings.Contains(err.Error(), "list containers") {
		t.Errorf("without a list: %v", err)
	}
}

// TestKeptWorkersAreNoOnesBusiness notices a worker of another state whose end is reported. It also
// notices one that is stopped because the wish of the last state is still believed.
func TestKeptWorkersAreNoOnesBusiness(t *testing.T) {
	a := tableOf(Config{Journal: newJournal(t)})
	now := time.Now()
	alloc := func(start model.UnixMS, uid uint32) *api.Alloc {
		return &api.Alloc{Job: 1, Attempt: 1, Start: start, Owner: model.Identity{UID: uid}}
	}
	for name, c := range map[string]struct {
		listed []api.Alloc
		kept   bool
	}{
		"not listed":               {nil, true},
		"the same":                 {[]api.Alloc{*alloc(1000, 7)}, false},
		"another start":            {[]api.Alloc{*alloc(1001, 7)}, true},
		"the same of another's":    {[]api.Alloc{*alloc(1000, 8)}, true},
		"another worker is listed": {[]api.Alloc{{Job: 2, Attempt: 1, Start: 1000, Owner: model.Identity{UID: 7}}}, true},
	} {
		a.workers = map[container.ID]*worker{}
		w := held{a}.of(wid(1))
		w.Desired, w.KillAt, w.Kept = alloc(1000, 7), now, true
		a.Apply(&api.NodeAllocs{Allocs: c.listed}, now, follow.Lease{})
		if w.Kept != c.kept || c.kept && (w.Desired != nil || !w.KillAt.IsZero() || !w.Confirmed) ||
			!c.kept && (w.Desired == nil || w.Confirmed) {
			t.Errorf("%s: %+v", name, w.Facts)
		}
	}
}

// TestDelaysOfRepeatedActions notices a daemon that asks controllers in a tight loop, or hardly ever.
func TestDelaysOfRepeatedActions(t *testing.T) {
	w := &worker{}
	for _, want := range []int{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
		w.delayRepeat(reconcile.Create, errFault)
		if w.delay.Milliseconds() != int64(want) {
			t.Errorf("%d tries: %v", w.Tries, w.delay)
		}
	}
	if w.Tries != 9 {
		t.Errorf("%d tries", w.Tries)
	}
	w.delayRepeat(reconcile.Create, nil)
	if w.Tries != 0 || w.delay != 0 || w.lastKind != reconcile.Create || !w.notBefore.IsZero() {
		t.Errorf("after a success: %+v", w)
	}
	w.delayRepeat(reconcile.Kill, nil) // it has no effect yet
	if w.Tries != 1 || w.notBefore.IsZero() {
		t.Errorf("after a kill: %+v", w)
	}
}

// TestALockedTableIsNotAlive notices a table that counts as alive before its loop turns, or while its
// state is locked for good.
func TestALockedTableIsNotAlive(t *testing.T) {
	table := tableOf(Config{Journal: newJournal(t), Runtime: manyChanges{lists: make(chan int, 100)}})
	alive := func(wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		return table.Alive(ctx)
	}
	if err := alive(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its loop does not run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- table.Watch(ctx) }()
	if err := alive(20 * time.Second); err != nil {
		t.Errorf("its loop turns: %v", err)
	}
	_, unlock := table.lock()
	if err := alive(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its state is locked: %v", err)
	}
	unlock()
	if err := alive(20 * time.Second); err != nil {
		t.Errorf("it is free again: %v", err)
	}
	cancel()
	<-done
}
