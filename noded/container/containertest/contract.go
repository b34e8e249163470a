package containertest

import (
	"context"
	"errors"
	"os"
	"strings"
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
	Pauses   Kind = "pauses at its pause points, and exits 85 at SIGTERM"
	Stuck    Kind = "has come by a pause point, and comes by none any more"

	Unsavable Kind = "has a connection, which CRIU does not save, and exits 85 at SIGTERM"

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
	// Saves returns what saves containers, or skips the test where nothing does. Bundles are then made for a
	// user that can be saved.
	Saves func(t *testing.T) container.Criu
	// BundleFrom makes a bundle of a container that ran k and goes on from an image.
	BundleFrom func(t *testing.T, id container.ID, k Kind, r container.Restore) string
}

// limit bounds every wait of the contract; a loaded machine needs far less.
const limit = 30 * time.Second

// Contract runs every test of the Runtime interface; open makes a fresh harness for each.
func Contract(t *testing.T, open func(t *testing.T) *Harness) {
	for name, test := range map[string]func(*testing.T, *Harness){
		"exit code":                 testExit(Exits7, container.Exit{Code: 7, Own: true}),
		"success":                   testExit(Exits0, container.Exit{Own: true}),
		"dies by a signal":          testExit(DiesBy11, container.Exit{Signal: 11, Own: true}),
		"nothing runs before start": testCreated,
		"signal":                    testSignal, "plain signal": testPlainSignal, "kill": testKill,
		"lease": testLease, "lease before start": testLeaseBeforeStart,
		"renew": testRenew, "extend": testExtend,
		"repeated calls": testRepeated, "restart of the daemon": testRestart,
		"exit while the daemon is away": testExitAway,
		"shim killed":                   testShimKilled, "remove": testRemove, "unknown container": testUnknown,
		"whose process":          testContainerOf,
		"tasks: the first fails": testTasksFail, "tasks: stop": testTasksStop, "tasks: kill": testTasksKilled,
		"tasks: restart of the daemon": testTasksRestart, "tasks: shim killed": testTasksShimKilled,
		"pauses by itself": testPause(one, Pauses, container.Cooperative),
		"is frozen":        testPause(one, Runs, container.Frozen),
		"is frozen when it does not pause in time": testPause(one, Stuck, container.Frozen),
		"tasks are frozen":                         testPause(one, TasksSave, container.Frozen),
		"must not be frozen":                       testNoFreeze, "a pause that is taken back": testPauseTakenBack,
		"stop while it is paused": testPausedStops(Pauses), "stop while it is frozen": testPausedStops(Saves),
		"kill while it is frozen": testFrozenKilled, "lease of a frozen one": testFrozenLease,
		"pause before the start": testPauseBeforeStart,
		"is saved and restored":  testSave, "cannot be saved": testNotSaved(Unsavable),
		"tasks cannot be saved": testNotSaved(TasksSave), "cannot be saved at its job socket": testNotSaved(Pauses),
		"save before the start": testSaveBeforeStart, "is saved while it is frozen": testSaveFrozen,
		"image that is not whole": testImageNotWhole, "image that cannot be restored": testNotRestored,
		"kill before it is restored": testKilledBeforeRestore, "lease of a restored one": testRestoredLease,
		"shim of a restored one killed": testRestoredShimKilled,
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
	if !got.NotRestored && (got.Own != want.Own || got.Unbegun != want.Unbegun) {
		t.Errorf("exit record %+v: it ended by itself: %t; it never began: %t", *got, want.Own, want.Unbegun)
	}
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
	h.ends(t, one, container.Exit{Signal: 9, Unbegun: true})
}

func testSignal(t *testing.T, h *Harness) {
	h.run(t, one, Saves)
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, one, container.Exit{Code: 85})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, Runs)
	must(t, h.Runtime.Signal(t.Context(), two, container.Signal{Number: int(unix.SIGUSR1)}))
	h.ends(t, two, container.Exit{Signal: int(unix.SIGUSR1)})
}

// testPlainSignal: a plain signal reaches what runs, and is an error where nothing does.
func testPlainSignal(t *testing.T, h *Harness) {
	plain := container.Signal{Number: int(unix.SIGTERM), Plain: true}
	h.create(t, one, Saves, time.Now().Add(time.Hour))
	if err := h.Runtime.Signal(t.Context(), one, plain); err == nil {
		t.Error("a plain signal to what has not begun is no error")
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: 9, Unbegun: true})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, Saves)
	must(t, h.Runtime.Signal(t.Context(), two, plain))
	h.ends(t, two, container.Exit{Code: 85, Own: true})
}

func testKill(t *testing.T, h *Harness) {
	h.run(t, one, Ignores)
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
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
	h.ends(t, one, container.Exit{Signal: 9, Lease: true, Unbegun: true})
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

func testExtend(t *testing.T, h *Harness) {
	const short = time.Second
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, one, Saves)
	h.create(t, two, Runs, time.Time{})
	must(t, h.Runtime.Start(t.Context(), two))
	must(t, h.Runtime.Renew(t.Context(), one, time.Now().Add(short)))
	must(t, h.Runtime.Extend(t.Context(), one, time.Now().Add(2*short)))
	must(t, h.Runtime.Extend(t.Context(), one, time.Now().Add(short/2)))
	must(t, h.Runtime.Extend(t.Context(), two, time.Now().Add(short/10)))
	timer := time.NewTimer(short + 200*time.Millisecond)
	<-timer.C
	for _, id := range []container.ID{one, two} {
		if s := h.status(t, id); s.State != container.Running {
			t.Errorf("a lease that was extended, and a container without a lease: %s is %+v", id, s)
		}
	}
	h.ends(t, one, container.Exit{Code: 85, Lease: true})
	must(t, h.Runtime.Kill(t.Context(), two))
	h.ends(t, two, container.Exit{Signal: 9})
}

func testRepeated(t *testing.T, h *Harness) {
	h.run(t, one, Runs)
	must(t, h.Runtime.Create(t.Context(), one, "nowhere", time.Now().Add(time.Hour)))
	must(t, h.Runtime.Start(t.Context(), one))
	must(t, h.Runtime.Kill(t.Context(), one))
	h.await(t, one, container.Exited)
	must(t, h.Runtime.Kill(t.Context(), one))
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
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
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, one, container.Exit{Code: 85})
	must(t, h.Runtime.Start(t.Context(), two))
	h.ends(t, two, container.Exit{Code: 7, Own: true})
}

func testExitAway(t *testing.T, h *Harness) {
	h.run(t, one, Exits7)
	h.Runtime = h.Restart(t)
	h.ends(t, one, container.Exit{Code: 7, Own: true})
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
		"signal": h.Runtime.Signal(t.Context(), missing, container.Signal{Number: 15}),
		"renew":  h.Runtime.Renew(t.Context(), missing, time.Now()),
		"extend": h.Runtime.Extend(t.Context(), missing, time.Now()),
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
	h.ends(t, one, container.Exit{Code: 3, Own: true})
}

func testTasksStop(t *testing.T, h *Harness) {
	h.run(t, one, TasksSave)
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, one, container.Exit{Code: 85})
	two := container.ID{Job: 2, Attempt: 1}
	h.run(t, two, TasksSave)
	must(t, h.Runtime.Renew(t.Context(), two, time.Now()))
	h.ends(t, two, container.Exit{Code: 85, Lease: true})
}

func testTasksKilled(t *testing.T, h *Harness) {
	h.create(t, one, TasksFail, time.Now().Add(time.Hour))
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: 9, Unbegun: true})
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
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
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

// switched waits until an order was carried out, or was found impossible.
func (h *Harness) switched(t *testing.T, id container.ID, number int) container.Switching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		s := h.status(t, id).Switch
		if s.Ordered == number && (s.Done == number || s.Problem != "") {
			return s
		}
		select {
		case <-h.Runtime.Changes():
		case <-ctx.Done():
			t.Fatalf("order %d of container %s: %+v", number, id, h.status(t, id))
		}
	}
}

// pauseWithin is how long a program of the contract is given to pause: long for the one that does,
// and short for the one that does not.
func pauseWithin(k Kind) int64 {
	if k == Stuck {
		return 50
	}
	return limit.Milliseconds()
}

// testPause has a container pause and go on, twice, with a restart of the daemon between.
func testPause(id container.ID, k Kind, by container.Means) func(*testing.T, *Harness) {
	return func(t *testing.T, h *Harness) {
		h.run(t, id, k)
		for number := 1; number <= 4; number++ {
			o := container.SwitchOrder{Number: number}
			if o.Pause() {
				o.WithinMS = pauseWithin(k)
			}
			must(t, h.Runtime.Switch(t.Context(), id, o))
			if got := h.switched(t, id, number); got.Done != number || got.Means != by || got.Problem != "" {
				t.Errorf("order %d: %+v", number, got)
			}
			must(t, h.Runtime.Switch(t.Context(), id, o)) // a repeated one changes nothing
			if number == 1 {
				h.Runtime = h.Restart(t)
				if got := h.status(t, id).Switch; got.Done != 1 || got.Means != by {
					t.Errorf("after a restart of the daemon: %+v", got)
				}
			}
		}
		must(t, h.Runtime.Kill(t.Context(), id))
		h.await(t, id, container.Exited)
		must(t, h.Runtime.Remove(t.Context(), id))
	}
}

func testNoFreeze(t *testing.T, h *Harness) {
	h.run(t, one, Runs)
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1, NoFreeze: "its memory stays"}))
	if got := h.switched(t, one, 1); got.Done != 0 || !strings.Contains(got.Problem, "its memory stays") {
		t.Errorf("%+v", got)
	}
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 2}))
	if got := h.switched(t, one, 2); got.Problem != "" {
		t.Errorf("it was told to go on: %+v", got)
	}
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, one, container.Exit{Signal: int(unix.SIGTERM)})
}

// testPauseTakenBack notices an order to pause that counts although the next one has come.
func testPauseTakenBack(t *testing.T, h *Harness) {
	h.run(t, one, Pauses)
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1, WithinMS: limit.Milliseconds()}))
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 2}))
	h.switched(t, one, 2)
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1}))
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 3, WithinMS: limit.Milliseconds()}))
	if got := h.switched(t, one, 3); got.Means != container.Cooperative {
		t.Errorf("%+v", got)
	}
	must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, one, container.Exit{Code: 85})
}

// testPausedStops notices a paused program that cannot save when it has to leave.
func testPausedStops(k Kind) func(*testing.T, *Harness) {
	return func(t *testing.T, h *Harness) {
		h.run(t, one, k)
		must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1, WithinMS: limit.Milliseconds()}))
		h.switched(t, one, 1)
		must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
		h.ends(t, one, container.Exit{Code: 85})
	}
}

func testFrozenKilled(t *testing.T, h *Harness) {
	h.run(t, one, Runs)
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1}))
	h.switched(t, one, 1)
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: int(unix.SIGKILL)})
}

func testFrozenLease(t *testing.T, h *Harness) {
	h.run(t, one, Saves)
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1}))
	h.switched(t, one, 1)
	must(t, h.Runtime.Renew(t.Context(), one, time.Now().Add(50*time.Millisecond)))
	h.ends(t, one, container.Exit{Code: 85, Lease: true})
}

func testPauseBeforeStart(t *testing.T, h *Harness) {
	h.create(t, one, Runs, time.Now().Add(time.Hour))
	if err := h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1}); err == nil ||
		!strings.Contains(err.Error(), "does not run") {
		t.Errorf("%v", err)
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.await(t, one, container.Exited)
}
