// Package containertest has a Runtime in memory and the contract that it and the real one pass.
package containertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// Program is what a fake container's command does once it has started.
type Program struct {
	Exit    *container.Exit         // set: it ends at once, like this
	Signals map[int]*container.Exit // how it ends at a signal; nil: it ignores it. Without an entry it dies of it.
	Pauses  bool                    // it comes by pause points; without, it is frozen
	Stuck   bool                    // and by none after the first
	NoSave  string                  // why it cannot be saved; "": it can
}

// World is the machine that fake containers run on. It outlives any one Fake, as containers outlive
// the node daemon.
type World struct {
	// Program says what a container runs; nil: programs run until they are signalled.
	Program func(id container.ID) Program
	// Fail, if set and not nil for an operation (create, start, signal, kill, switch, save, renew, remove, list),
	// makes it fail with that error.
	Fail func(op string, id container.ID) error

	mu         sync.Mutex
	containers map[container.ID]*fakeContainer
	fakes      []*Fake
	starts     map[container.ID]int
}

type fakeContainer struct {
	status  container.Status
	asked   bool  // it was asked to stop
	pending []int // signals from before the start
	lease   *time.Timer
	until   time.Time // the end of the lease; zero: it has none
	expired bool
	early   bool // it was told that its time limit comes

	restores *container.Restore // it goes on from an image
}

// Fake is a Runtime over a World.
type Fake struct {
	world   *World
	changes chan container.ID
}

var _ container.Runtime = (*Fake)(nil)

// Open returns another Runtime on the same machine, as after a restart of the daemon.
func (w *World) Open() *Fake {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &Fake{world: w, changes: make(chan container.ID, 4096)}
	w.fakes = append(w.fakes, f)
	return f
}

// World returns the machine of f.
func (f *Fake) World() *World { return f.world }

// Starts counts how often the command of a container has started. More than once is a fault of the
// caller.
func (w *World) Starts(id container.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starts[id]
}

// End ends a container's command from within.
func (w *World) End(id container.ID, e container.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(id, e)
}

// KillShim ends a container together with its shim: no exit record is left.
func (w *World) KillShim(id container.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.containers[id]; b != nil && live(b) {
		b.stopLease()
		b.status = container.Status{ID: id, State: container.Lost, Why: "the shim died without leaving an exit record"}
		w.changed(id)
	}
}

func live(b *fakeContainer) bool {
	return b.status.State == container.Created || b.status.State == container.Running
}

func (b *fakeContainer) stopLease() {
	if b.lease != nil {
		b.lease.Stop()
	}
}

func (w *World) changed(id container.ID) {
	for _, f := range w.fakes {
		select {
		case f.changes <- id:
		default:
		}
	}
}

func (w *World) end(id container.ID, e container.Exit) {
	b := w.containers[id]
	if b == nil || !live(b) {
		return
	}
	b.stopLease()
	e.Lease, e.Ended = b.expired, time.Now().UnixMilli()
	e.Unbegun, e.Own = b.status.State == container.Created, !b.asked
	b.status = container.Status{ID: id, State: container.Exited, Exit: &e}
	w.changed(id)
}

func (w *World) program(id container.ID) Program {
	if w.Program == nil {
		return Program{}
	}
	return w.Program(id)
}

func (w *World) fail(op string, id container.ID) error {
	if w.Fail == nil {
		return nil
	}
	return w.Fail(op, id)
}

// Create implements container.Runtime. The bundle's directory must exist.
func (f *Fake) Create(_ context.Context, id container.ID, dir string, lease time.Time) error {
	w := f.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("create", id); err != nil {
		return err
	}
	if b := w.containers[id]; b != nil {
		w.renew(b, lease)
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("create container %s: %w", id, err)
	}
	b := &fakeContainer{status: container.Status{ID: id, State: container.Created, Pid: 1000 + len(w.containers)}}
	if s, err := container.ReadSettings(dir); err == nil && s.Restore != nil {
		if _, err := container.ReadSaved(s.Restore.Dir); err != nil {
			return fmt.Errorf("create container %s: %w", id, err)
		}
		b.restores = s.Restore
	}
	if w.containers == nil {
		w.containers, w.starts = map[container.ID]*fakeContainer{}, map[container.ID]int{}
	}
	w.containers[id] = b
	w.renew(b, lease)
	return nil
}

func (w *World) renew(b *fakeContainer, lease time.Time) {
	b.stopLease()
	if b.until = lease; lease.IsZero() || !live(b) || b.expired {
		return
	}
	b.lease = time.AfterFunc(time.Until(lease), func() { w.expire(b) })
}

// expire does what a shim does at the end of the lease, with no time between signal and kill.
func (w *World) expire(b *fakeContainer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.expired, b.asked = true, true
	w.signal(b, int(unix.SIGTERM))
	w.end(b.status.ID, container.Exit{Signal: int(unix.SIGKILL)})
}

// Start implements container.Runtime.
func (f *Fake) Start(_ context.Context, id container.ID) error {
	return f.with("start", id, func(b *fakeContainer) {
		if b.status.State != container.Created {
			return
		}
		w := f.world
		if r := b.restores; r != nil {
			if text, err := os.ReadFile(filepath.Join(r.Dir, fakeImage)); err != nil || string(text) != fakeImage {
				w.end(id, container.Exit{Signal: int(unix.SIGKILL), NotRestored: true, Why: "the image is none of a fake's"})
				return
			}
		}
		w.starts[id]++
		b.status.State = container.Running
		w.changed(id)
		for _, s := range b.pending {
			w.signal(b, s)
		}
		if e := w.program(id).Exit; e != nil && b.restores == nil {
			w.end(id, *e)
		}
	})
}

// fakeImage is the name and the content of the file of which the image of a fake container consists.
const fakeImage = "fake"

// Save implements container.Runtime. It is done at once.
func (f *Fake) Save(_ context.Context, id container.ID, o container.SaveOrder) error {
	runs := false
	err := f.with("save", id, func(b *fakeContainer) {
		runs = b.status.State == container.Running
		if ended := !live(b); ended || !runs || o.Dir == b.status.Save.Dir {
			runs = runs || ended
			return
		}
		p := f.world.program(id)
		b.status.Save = container.Saving{Dir: o.Dir, Problem: p.NoSave}
		if p.NoSave == "" {
			if err := writeFakeImage(o); err != nil {
				b.status.Save.Problem = err.Error()
			} else {
				b.asked = true
				f.world.end(id, container.Exit{Signal: int(unix.SIGKILL), Saved: true})
			}
		}
		f.world.changed(id)
	})
	if err == nil && !runs {
		err = errors.New("the worker does not run")
	}
	return err
}

func writeFakeImage(o container.SaveOrder) error {
	part := container.PartOfImage(o.Dir)
	return errors.Join(os.Mkdir(part, 0o700), os.WriteFile(filepath.Join(part, fakeImage), []byte(fakeImage), 0o600),
		container.FinishImage(o.Dir, o.Criu))
}

// Signal implements container.Runtime.
func (f *Fake) Signal(_ context.Context, id container.ID, s container.Signal) error {
	runs := true
	err := f.with("signal", id, func(b *fakeContainer) {
		if runs = b.status.State == container.Running; s.Plain && !runs {
			return
		}
		if s.Early && b.early {
			return
		}
		b.early = b.early || s.Early
		b.asked = b.asked || !s.Early && !s.Plain
		f.world.signal(b, s.Number)
	})
	if err == nil && s.Plain && !runs {
		err = errors.New("no main task of the worker is running")
	}
	return err
}

func (w *World) signal(b *fakeContainer, signal int) {
	if b.status.State == container.Created && signal != int(unix.SIGKILL) {
		b.pending = append(b.pending, signal)
		return
	}
	end, known := w.program(b.status.ID).Signals[signal]
	switch {
	case !known || signal == int(unix.SIGKILL):
		w.end(b.status.ID, container.Exit{Signal: signal})
	case end != nil:
		w.end(b.status.ID, *end)
	}
}

// Kill implements container.Runtime.
func (f *Fake) Kill(_ context.Context, id container.ID) error {
	return f.with("kill", id, func(b *fakeContainer) {
		b.asked = true
		f.world.end(id, container.Exit{Signal: int(unix.SIGKILL)})
	})
}

// Switch implements container.Runtime.
func (f *Fake) Switch(_ context.Context, id container.ID, o container.SwitchOrder) error {
	runs := false
	err := f.with("switch", id, func(b *fakeContainer) {
		s := &b.status.Switch
		if runs = b.status.State == container.Running; !runs || o.Number <= s.Ordered {
			return
		}
		s.Ordered, s.Problem = o.Number, ""
		switch p := f.world.program(id); {
		case !o.Pause():
		case p.Pauses && !p.Stuck:
			s.Means = container.Cooperative
		case o.NoFreeze == "":
			s.Means = container.Frozen
		default:
			s.Problem = o.NoFreeze
		}
		if s.Problem == "" {
			s.Done = o.Number
		}
		f.world.changed(id)
	})
	if err == nil && !runs {
		err = errors.New("the worker does not run")
	}
	return err
}

// Renew implements container.Runtime.
func (f *Fake) Renew(_ context.Context, id container.ID, lease time.Time) error {
	return f.with("renew", id, func(b *fakeContainer) { f.world.renew(b, lease) })
}

// Extend implements container.Runtime.
func (f *Fake) Extend(_ context.Context, id container.ID, lease time.Time) error {
	return f.with("extend", id, func(b *fakeContainer) {
		if !b.until.IsZero() && lease.After(b.until) {
			f.world.renew(b, lease)
		}
	})
}

// with finds a container for an operation.
func (f *Fake) with(op string, id container.ID, do func(b *fakeContainer)) error {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	if err := f.world.fail(op, id); err != nil {
		return err
	}
	b := f.world.containers[id]
	if b == nil {
		return fmt.Errorf("container %s: %w", id, container.ErrUnknown)
	}
	do(b)
	return nil
}

// Remove implements container.Runtime.
func (f *Fake) Remove(_ context.Context, id container.ID) error {
	w := f.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("remove", id); err != nil {
		return err
	}
	if b := w.containers[id]; b != nil && live(b) {
		return fmt.Errorf("remove container %s: %w", id, container.ErrLive)
	}
	delete(w.containers, id)
	return nil
}

// List implements container.Runtime.
func (f *Fake) List(context.Context) ([]container.Status, error) {
	w := f.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail("list", container.ID{}); err != nil {
		return nil, err
	}
	list := make([]container.Status, 0, len(w.containers))
	for _, b := range w.containers {
		list = append(list, b.status)
	}
	slices.SortFunc(list, func(a, b container.Status) int { return a.ID.Compare(b.ID) })
	return list, nil
}

// ContainerOf implements [container.Runtime]: the first process of a container is all that it has.
func (f *Fake) ContainerOf(pid int) (container.ID, bool) {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	for id, b := range f.world.containers {
		if live(b) && b.status.Pid == pid {
			return id, true
		}
	}
	return container.ID{}, false
}

// Changes implements container.Runtime.
func (f *Fake) Changes() <-chan container.ID { return f.changes }
