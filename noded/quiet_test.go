package noded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
)

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
		a := NewAgent(Parts{Journal: newJournal(t), Runtime: rt, Log: slog.New(slog.DiscardHandler)})
		a.ctx = t.Context()
		w := a.workerOf(wid(1))
		w.busy, w.Actual, w.Journaled, w.Entry.Started = true, container.Running, true, true // no step is due
		answer := &api.NodeAllocs{LeaseMS: 600_000, Allocs: []api.Alloc{{Job: 1, Attempt: 1, Released: true}}}
		for second := range 125 { // the term is 600 s, of which a tenth passes between renewals
			answer.Index++
			if err := a.applyAllocs(answer, currentMoment(), time.Now()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			// the boot clock is the machine's also in the bubble, so that an order may be one answer late
			if n := rt.n.Load(); second < 60 && n != 1 || n > int64(1+second/60) || second > 62 && n < 2 {
				t.Fatalf("after %d s there were %d orders", second, n)
			}
			time.Sleep(time.Second) // of the bubble
		}
		answer.Index = 1
		if err := a.applyAllocs(answer, currentMoment(), time.Now()); !errors.Is(err, errWentBack) || !w.Kept ||
			a.desiredKnown {
			t.Errorf("a state that went back: %v, kept %t", err, w.Kept)
		}
		a.actions.Wait()
	})
}

// TestAWaitingWorkerIsNotDelayed notices a worker whose cores are free now, and that still waits
// because it had to wait before.
func TestAWaitingWorkerIsNotDelayed(t *testing.T) {
	a := NewAgent(Parts{Journal: newJournal(t), Log: slog.New(slog.DiscardHandler)})
	for n, waiting := range []bool{true, false} {
		w := a.workerOf(wid(int64(n)))
		w.waiting, w.busy, w.notBefore = waiting, true, time.Now().Add(time.Hour)
	}
	a.retryWaiting()
	if !a.workers[wid(0)].notBefore.IsZero() || a.workers[wid(1)].notBefore.IsZero() {
		t.Errorf("they wait until %v and %v", a.workers[wid(0)].notBefore, a.workers[wid(1)].notBefore)
	}
}

// TestRealGPUsAreAskedFor notices a node that has simulated GPUs although none were asked for, or the
// other way round.
func TestRealGPUsAreAskedFor(t *testing.T) {
	for sim, want := range map[int]bool{0: true, 1: false, 3: false} {
		cfg := installed(t, pkitest.New(t), pki.Node)
		cfg.SimGPUs, cfg.NVMLHelper = sim, []string{"/bin/false"}
		d := &daemon{cfg: cfg.withDefaults()}
		if err := d.loadCredential(); err != nil {
			t.Fatal(err)
		}
		if err := d.openState(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the driver is not waited for
		_ = d.newAgent(ctx)
		if _, real := d.gpus.(*gpu.Helper); real != want {
			t.Errorf("with %d simulated GPUs they come from %T", sim, d.gpus)
		}
		d.cfg.Login = true // it has made no cgroups
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestARegistrationIsLogged notices a log that does not show an operator that a node has joined, and
// with what.
func TestARegistrationIsLogged(t *testing.T) {
	w := newWorld(t, 1)
	var said bytes.Buffer
	a := NewAgent(Parts{Control: &life{world: w}, Log: slog.New(slog.NewTextHandler(&said, nil))})
	a.Node.Name, a.Node.Cores = "n1", 8
	if err := a.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "msg=registered node=n1 cores=8 gpus=0") {
		t.Errorf("it says %q", &said)
	}
}

// TestASocketThatNoUserReaches notices a socket in a directory that no user enters.
func TestASocketThatNoUserReaches(t *testing.T) {
	for socket, refused := range map[string]bool{"/var/lib/n/s": true, "/var/lib/n/run/s": true, "/var/lib/n.sock": false,
		"/var/lib/n/../s": false, "": false} {
		c := DefaultConfig()
		c.Name, c.DataDir, c.Socket = "n1", "/var/lib/n", socket
		err := c.withDefaults().Validate()
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "--socket") {
			t.Errorf("%q: %v", socket, err)
		}
	}
}
