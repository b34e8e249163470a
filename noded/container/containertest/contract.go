package containertest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// Kind is a program that both runtimes can run.
type Kind string

// Programs of the contract.
const (
	Exits0   Kind = "exits 0"
	Exits7   Kind = "exits 7"
	Runs     Kind = "runs until it is signalled"
	Saves    Kind = "exits 85 at SIGTERM"
	Ignores  Kind = "ignores SIGTERM"
	DiesBy11 Kind = "dies by signal 11"

	// Workers of two tasks.
	TasksFail Kind = "exits 3 before its main task, which runs until it is signalled"
	TasksSave Kind = "exits 85 at SIGTERM, beside a sidecar that runs until it is signalled"

	MissingID = 999 // worker number of a container that is never created
)

// Harness is a runtime under test and what the contract does to it from outside.
type Harness struct {
	Runtime container.Runtime
	Bundle  func(t *testing.T, id container.ID, k Kind) string // makes a bundle that runs k and returns its directory
	// waits until the command of a container handles signals
	Ready func(t *testing.T, id container.ID)
	// the daemon's connections are lost and a new one takes over
	Restart  func(t *testing.T) container.Runtime
	KillShim func(t *testing.T, id container.ID)
}

// limit bounds every wait of the contract; a loaded machine needs far less.
const limit = 30 * time.Second

// Contract runs every test of the Runtime interface; open makes a fresh harness for each.
func Contract(t *testing.T, open func(t *testing.T) *Harness) {
	for name, test := range map[string]func(*testing.T, *Harness){
		"exit code": testExit(Exits7, container.Exit{Code: 7}), "success": testExit(Exits0, container.Exit{}),
		"dies by a signal": testExit(DiesBy11, container.Exit{Signal: 11}), "nothing runs before start": testCreated,
		"signal": testSignal, "kill": testKill, "lease": testLease, "lease before start": testLeaseBeforeStart,
		"renew":          testRenew,
		"repeated calls": testRepeated, "restart of the daemon": testRestart,
		"exit while the daemon is away": testExitAway,
		"shim killed":                   testShimKilled, "remove": testRemove, "unknown container": testUnknown,
		"whose process":          testContainerOf,
		"tasks: the first fails": testTasksFail, "tasks: stop": testTasksStop, "tasks: kill": testTasksKilled,
		"tasks: restart of the daemon": testTasksRestart, "tasks: shim killed": testTasksShimKilled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var one = container.ID{Job: 1, Attempt: 1}

func (h *Harness) create(t *testing.T, id container.ID, k Kind, lease time.Time) {
	t.Helper()
	if err := h.Runtime.Create(t.Context(), id, h.Bundle(t, id, k), lease); err != nil {
		t.Fatal(err)
	}
}

func (h *Harness) run(t *testing.T, id container.ID, k Kind) {
	t.Helper()
	h.create(t, id, k, time.Now().Add(time.Hour))
	must(t, h.Runtime.Start(t.Context(), id))
	if k != Exits0 && k != Exits7 && k != DiesBy11 && k != TasksFail {
		h.Ready(t, id)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// status returns the status of one container as List gives it, the zero Status if it is not listed.
func (h *Harness) status(t *testing.T, id container.ID) container.Status {
	t.Helper()
	list, err := h.Runtime.List(t.Context())
	must(t, err)
	for _, s := range list {
		if s.ID == id {
			return s
		}
	}
	return container.Status{}
}

// await waits for a state as the agent does: by Changes, each time followed by List.
func (h *Harness) await(t *testing.T, id container.ID, want container.State) container.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		if s := h.status(t, id); s.State == want {
			return s
		}
		select {
		case <-h.Runtime.Changes():
		case <-ctx.Done():
			t.Fatalf("container %s did not become %s: %+v", id, want, h.status(t, id))
		}
	}
}

func (h *Harness) ends(t *testing.T, id container.ID, want container.Exit) {
	t.Helper()
	got := h.await(t, id, container.Exited).Exit
	if got.Code != want.Code || got.Signal != want.Signal || got.Lease != want.Lease || got.OOM != want.OOM {
		t.Errorf("exit record %+v, want %+v", *got, want)
	}
	if got.Ended == 0 {
		t.Error("exit record has no time")
	}
	must(t, h.Runtime.Remove(t.Context(), id))
}

func testExit(k Kind, want container.Exit) func(*testing.T, *Harness) {
	return func(t *testing.T, h *Harness) {
		h.run(t, one, k)
		h.ends(t, one, want)
	}
}

func testCreated(t *testing.T, h *Harness) {
	h.create(t, one, Exits7, time.Now().Add(time.Hour))
	if s := h.status(t, one); s.State != container.Created || s.Pid == 0 {
		t.Errorf("after Create: %+v", s)
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: 9})
}

func testSignal(t *testing.T, h *Harness) {
	h.run(t, one, Saves)
	must(t, h.Runtime.Signal(t.Context(), one, int(unix.SIGTERM)))
	h.ends(t, one, container.Exit{Code: 85})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, Runs)
	must(t, h.Runtime.Signal(t.Context(), two, int(unix.SIGUSR1)))
	h.ends(t, two, container.Exit{Signal: int(unix.SIGUSR1)})
}

func testKill(t *testing.T, h *Harness) {
	h.run(t, one, Ignores)
	must(t, h.Runtime.Signal(t.Context(), one, int(unix.SIGTERM)))
	if s := h.status(t, one); s.State != container.Running {
		t.Errorf("after an ignored signal: %+v", s)
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: 9})
}

func testLease(t *testing.T, h *Harness) {
	h.run(t, one, Saves)
	must(t, h.Runtime.Renew(t.Context(), one, time.Now().Add(50*time.Millisecond)))
	h.ends(t, one, container.Exit{Code: 85, Lease: true})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, Ignores)
	must(t, h.Runtime.Renew(t.Context(), two, time.Now()))
	h.ends(t, two, container.Exit{Signal: 9, Lease: true})
}

func testLeaseBeforeStart(t *testing.T, h *Harness) {
	h.create(t, one, Runs, time.Now().Add(200*time.Millisecond))
	h.ends(t, one, container.Exit{Signal: 9, Lease: true})
}

func testRenew(t *testing.T, h *Harness) {
	const short = time.Second
	h.run(t, one, Runs)
	must(t, h.Runtime.Renew(t.Context(), one, time.Now().Add(short)))
	must(t, h.Runtime.Renew(t.Context(), one, time.Now().Add(time.Hour)))
	timer := time.NewTimer(short + 200*time.Millisecond)
	<-timer.C
	if s := h.status(t, one); s.State != container.Running {
		t.Fatalf("past a lease that was renewed: %+v", s)
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: 9})
}

func testRepeated(t *testing.T, h *Harness) {
	h.run(t, one, Runs)
	must(t, h.Runtime.Create(t.Context(), one, "nowhere", time.Now().Add(time.Hour)))
	must(t, h.Runtime.Start(t.Context(), one))
	must(t, h.Runtime.Kill(t.Context(), one))
	h.await(t, one, container.Exited)
	must(t, h.Runtime.Kill(t.Context(), one))
	must(t, h.Runtime.Signal(t.Context(), one, int(unix.SIGTERM)))
	must(t, h.Runtime.Start(t.Context(), one))
	must(t, h.Runtime.Renew(t.Context(), one, time.Now()))
	h.ends(t, one, container.Exit{Signal: 9})
}

func testRestart(t *testing.T, h *Harness) {
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, one, Saves)
	h.create(t, two, Exits7, time.Now().Add(time.Hour))
	h.Runtime = h.Restart(t)
	if a, b := h.status(t, one), h.status(t, two); a.State != container.Running || b.State != container.Created {
		t.Fatalf("after a restart: %+v and %+v", a, b)
	}
	must(t, h.Runtime.Signal(t.Context(), one, int(unix.SIGTERM)))
	h.ends(t, one, container.Exit{Code: 85})
	must(t, h.Runtime.Start(t.Context(), two))
	h.ends(t, two, container.Exit{Code: 7})
}

func testExitAway(t *testing.T, h *Harness) {
	h.run(t, one, Exits7)
	h.Runtime = h.Restart(t)
	h.ends(t, one, container.Exit{Code: 7})
}

func testShimKilled(t *testing.T, h *Harness) {
	h.run(t, one, Runs)
	h.KillShim(t, one)
	if s := h.await(t, one, container.Lost); s.Why == "" || s.Exit != nil {
		t.Errorf("after the shim was killed: %+v", s)
	}
	h.Runtime = h.Restart(t)
	h.await(t, one, container.Lost)
	must(t, h.Runtime.Remove(t.Context(), one))
}

func testRemove(t *testing.T, h *Harness) {
	h.run(t, one, Runs)
	if err := h.Runtime.Remove(t.Context(), one); !errors.Is(err, container.ErrLive) {
		t.Errorf("remove of a live container: %v", err)
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.await(t, one, container.Exited)
	must(t, h.Runtime.Remove(t.Context(), one))
	must(t, h.Runtime.Remove(t.Context(), one))
	if s := h.status(t, one); s.State != "" {
		t.Errorf("after Remove: %+v", s)
	}
}

func testUnknown(t *testing.T, h *Harness) {
	missing := container.ID{Job: 1, Attempt: 1, Worker: MissingID}
	for name, err := range map[string]error{
		"start": h.Runtime.Start(t.Context(), missing), "kill": h.Runtime.Kill(t.Context(), missing),
		"signal": h.Runtime.Signal(t.Context(), missing, 15),
		"renew":  h.Runtime.Renew(t.Context(), missing, time.Now()),
	} {
		if !errors.Is(err, container.ErrUnknown) {
			t.Errorf("%s of a container that does not exist: %v", name, err)
		}
	}
	must(t, h.Runtime.Remove(t.Context(), missing))
}

func testContainerOf(t *testing.T, h *Harness) {
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, one, Runs)
	h.run(t, two, TasksSave)
	pid := h.status(t, one).Pid
	for p, want := range map[int]container.ID{pid: one, h.status(t, two).Pid: two, 1: {}, os.Getpid(): {}} {
		if id, ok := h.Runtime.ContainerOf(p); id != want || ok != (want != container.ID{}) {
			t.Errorf("process %d is of container %v, %v, want %v", p, id, ok, want)
		}
	}
	for _, id := range []container.ID{one, two} {
		must(t, h.Runtime.Kill(t.Context(), id))
		h.await(t, id, container.Exited)
		must(t, h.Runtime.Remove(t.Context(), id))
	}
	if id, ok := h.Runtime.ContainerOf(pid); ok {
		t.Errorf("process %d of a container that is gone is of container %v", pid, id)
	}
}

func testTasksFail(t *testing.T, h *Harness) {
	h.run(t, one, TasksFail)
	if e := h.await(t, one, container.Exited).Exit; e.Why == "" {
		t.Errorf("it is not said which task failed: %+v", *e)
	}
	h.ends(t, one, container.Exit{Code: 3})
}

func testTasksStop(t *testing.T, h *Harness) {
	h.run(t, one, TasksSave)
	must(t, h.Runtime.Signal(t.Context(), one, int(unix.SIGTERM)))
	h.ends(t, one, container.Exit{Code: 85})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, TasksSave)
	must(t, h.Runtime.Renew(t.Context(), two, time.Now()))
	h.ends(t, two, container.Exit{Code: 85, Lease: true})
}

func testTasksKilled(t *testing.T, h *Harness) {
	h.create(t, one, TasksFail, time.Now().Add(time.Hour))
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: 9})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, TasksSave)
	must(t, h.Runtime.Kill(t.Context(), two))
	h.ends(t, two, container.Exit{Signal: 9})
}

func testTasksRestart(t *testing.T, h *Harness) {
	h.run(t, one, TasksSave)
	h.Runtime = h.Restart(t)
	if s := h.status(t, one); s.State != container.Running {
		t.Fatalf("after a restart: %+v", s)
	}
	must(t, h.Runtime.Signal(t.Context(), one, int(unix.SIGTERM)))
	h.ends(t, one, container.Exit{Code: 85})
}

func testTasksShimKilled(t *testing.T, h *Harness) {
	h.run(t, one, TasksSave)
	h.KillShim(t, one)
	h.await(t, one, container.Lost)
	must(t, h.Runtime.Remove(t.Context(), one))
	if s := h.status(t, one); s.State != "" {
		t.Errorf("after Remove: %+v", s)
	}
}
