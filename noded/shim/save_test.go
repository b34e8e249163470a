package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/criu"
	"github.com/rota-hpc/rota/noded/shim/jobsocket"
	"github.com/rota-hpc/rota/noded/shim/session"
)

// idle returns the supervisor of a worker that runs, as far as it knows. Its containers have no process.
func idle(t *testing.T, list ...program) *supervisor {
	t.Helper()
	if len(list) == 0 {
		list = []program{script("true")}
	}
	w := bundleOf(t, nil, list)
	s, err := container.ReadSettings(w.dir)
	check(t, err)
	sup := &supervisor{dir: w.dir, settings: s, tasks: tasksOf(w.dir, s), state: container.Running, job: jobsocket.New(),
		io: session.NewServer(s), memory: newGPUMemory(), image: newImage(nil)}
	for _, one := range sup.tasks {
		one.State = container.Running
		one.container, err = newRestored(one.dir, one.name)
		check(t, err)
		t.Cleanup(one.container.discard)
		one.logs = unread(t)
	}
	return sup
}

// hasEnded reports whether a container has no process and will have none.
func (c *runcContainer) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// TestWhatKeepsAWorkerFromBeingSaved goes through the guards of an order to save. It notices one that is dropped,
// and a worker that is refused without a reason.
func TestWhatKeepsAWorkerFromBeingSaved(t *testing.T) {
	needsRoot(t)
	sup := idle(t)
	fresh := func() {
		sup.state, sup.image, sup.shared, sup.switching = container.Running, newImage(nil), nil, switching{}
		sup.job, sup.io, sup.memory = jobsocket.New(), session.NewServer(sup.settings), newGPUMemory()
	}
	for name, c := range map[string]struct {
		edit func()
		says string // "": nothing is in the way
		same bool   // it is being done already
	}{
		"nothing":                {func() {}, "", false},
		"another was made":       {func() { sup.image.save.Dir = "/other" }, "", false},
		"it has not begun":       {func() { sup.state = container.Created }, "does not run", false},
		"the same order":         {func() { sup.image.save.Dir, sup.image.phase = "/none/1", saving }, "", true},
		"the same, and was made": {func() { sup.image.save.Dir = "/none/1" }, "", true},
		"another is being made": {func() { sup.image.save.Dir, sup.image.phase = "/other", saving },
			"being saved into /other", false},
		"another is whole":   {func() { sup.image.save.Dir, sup.image.phase = "/other", saved }, "being stopped", false},
		"it is lost":         {func() { sup.image.phase = lost }, "being stopped", false},
		"several tasks":      {func() { sup.shared = &sharedResources{} }, "several tasks", false},
		"the job's socket":   {func() { sup.job.Add(nil) }, "connection to the job socket", false},
		"a terminal":         {func() { sup.io.Own = session.New(false, nil) }, "it has a terminal", false},
		"a person's process": {func() { sup.io.Add(nil) }, "it has a terminal", false},
		"memory that moves":  {func() { sup.memory.moving = true }, "the GPU driver holds its GPU memory", false},
		"memory on the host": {func() { sup.memory.onHost = true }, "the GPU driver holds its GPU memory", false},
	} {
		fresh()
		c.edit()
		before := sup.image.phase == saving
		err := sup.save(container.SaveOrder{Dir: "/none/1", WithinMS: patient})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if begun := sup.image.phase == saving && !before; begun != (c.says == "" && !c.same) {
			t.Errorf("%s: it is being saved: %t", name, begun)
		} else if begun {
			if s := sup.image.save; s.Dir != "/none/1" || s.Problem != "" {
				t.Errorf("%s: %+v", name, s)
			}
			if err := <-sup.image.over; err == nil || !strings.Contains(err.Error(), "it cannot be saved") {
				t.Errorf("%s: without a place for it: %v", name, err)
			}
		}
	}
	for number, paused := range map[int]bool{1: true, 2: false} {
		fresh()
		sup.switching.order.Number = number
		check(t, sup.save(container.SaveOrder{Dir: "/none/1", WithinMS: patient}))
		if <-sup.image.over; sup.switching.stops != paused {
			t.Errorf("after order %d processes that have paused are told to stop: %t", number, sup.switching.stops)
		}
	}
}

// TestWhatBecomesOfASavedWorker takes each outcome of CRIU. It notices a worker that is killed though it goes
// on, that is not though it may be damaged, and an end meanwhile that is lost.
func TestWhatBecomesOfASavedWorker(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		phase  imagePhase
		killed bool
	}{
		"whole":      {nil, saved, false},
		"a refusal":  {errors.New("a TCP connection"), alive, false},
		"it hung":    {criu.ErrHangs, lost, true},
		"unfinished": {fmt.Errorf("%w: no room", criu.ErrUnfinished), lost, false},
	} {
		for _, ended := range []bool{false, true} {
			sup := idle(t)
			one, m := sup.tasks[0], &sup.image
			m.phase = saving
			if ended {
				one.container.giveUp()
				sup.taskEnded(one)
				if one.State != container.Running || m.held != one {
					t.Errorf("%s: its end counts before it is known whether it was saved: %s", name, one.State)
				}
			}
			sup.criuEnded(c.err)
			if m.phase != c.phase || (m.save.Problem != "") != (c.err != nil) || m.held != nil ||
				c.phase == lost && m.why != c.err.Error() {
				t.Errorf("%s: %+v", name, m)
			}
			if sup.NoMoreStarts != c.killed || !ended && one.container.hasEnded() != c.killed {
				t.Errorf("%s: it is killed: %t", name, sup.NoMoreStarts)
			}
			if (one.State == container.Exited) != ended {
				t.Errorf("%s: ended %t, state %s", name, ended, one.State)
			}
		}
	}
}

// TestWhenAWorkerIsRestored: at its start, once, unless it was killed before; and it runs only if that succeeded.
func TestWhenAWorkerIsRestored(t *testing.T) {
	image := &container.Restore{Dir: "/none/1"}
	for name, c := range map[string]struct {
		image       *container.Restore
		phase       imagePhase
		noMoreStart bool
		state       container.State
		busy        bool
	}{
		"no image":   {nil, alive, false, container.Running, false},
		"an image":   {image, awaited, false, container.Created, true},
		"once":       {image, restoring, false, container.Created, false},
		"restored":   {image, alive, false, container.Created, false},
		"too late":   {image, awaited, true, container.Created, false},
		"both":       {image, unrestored, true, container.Created, false},
		"also later": {nil, alive, true, container.Running, false},
	} {
		sup := idle(t)
		sup.state, sup.settings.Restore = container.Created, c.image
		sup.image.phase, sup.NoMoreStarts = c.phase, c.noMoreStart
		sup.startOrRestore()
		if sup.state != c.state || sup.tasks[0].container.restoring != c.busy ||
			sup.image.phase != c.phase.after(startOrdered) && c.busy {
			t.Errorf("%s: %s, in phase %d", name, sup.state, sup.image.phase)
		}
		if !c.busy {
			continue
		}
		one := sup.tasks[0]
		one.State = container.Created
		sup.taskEnded(one)
		if sup.image.held != one || one.State != container.Created {
			t.Errorf("%s: its end counts before it is known whether it was restored", name)
		}
		sup.criuEnded(<-sup.image.over)
		e := sup.exitRecord()
		if sup.image.phase != unrestored || !sup.NoMoreStarts || sup.state == container.Running || !e.NotRestored ||
			!strings.Contains(e.Why, "/none/1") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestWhichEndsCount notices an end before the start that is forgotten, and the end of a worker that was killed before
// its start that is recorded as a run.
func TestWhichEndsCount(t *testing.T) {
	for _, c := range []struct {
		worker, task container.State
		noMoreStarts bool
		want         container.State
		stops        bool // no task may start after that
	}{
		{container.Created, container.Created, false, container.Exited, true},
		{container.Created, container.Created, true, container.Created, true},
		{container.Running, container.Created, true, container.Created, true},
		{container.Running, container.Running, false, container.Exited, false},
		{container.Running, container.Running, true, container.Exited, true},
	} {
		sup := idle(t)
		sup.state, sup.tasks[0].State, sup.NoMoreStarts = c.worker, c.task, c.noMoreStarts
		sup.tasks[0].container.giveUp()
		sup.taskEnded(sup.tasks[0])
		if got := sup.tasks[0].State; got != c.want || sup.NoMoreStarts != c.stops {
			t.Errorf("%+v: %s, no more starts: %t", c, got, sup.NoMoreStarts)
		}
	}
}

// TestWhoseEndItIs: an end is the program's own unless it was asked to stop before. A command that could not be
// started has not ended well.
func TestWhoseEndItIs(t *testing.T) {
	failed := errors.New("no such file")
	for _, c := range []struct {
		asked, unasked bool
		err            error
		code           int
		own            bool
		signal         int
	}{
		{false, false, nil, 0, true, 9}, {true, false, nil, 0, false, 9}, {true, true, nil, 0, true, 9},
		{false, true, nil, 3, true, 0}, {true, false, failed, 3, false, 0}, {false, false, failed, 0, true, 9},
	} {
		sup := idle(t)
		one := sup.tasks[0]
		one.Asked, one.container.endedUnasked, one.startError = c.asked, c.unasked, c.err
		if c.code != 0 {
			one.container.waited = waitFor(t, fmt.Sprintf("exit %d", c.code))
		}
		one.container.giveUp()
		one.recordEnd()
		if e := one.Exit; e.Own != c.own || e.Code != c.code || e.Signal != c.signal || one.State != container.Exited {
			t.Errorf("%+v: %+v", c, e)
		}
	}
	sup := idle(t)
	one := sup.tasks[0]
	one.startError, one.container.waited = failed, waitFor(t, "exit 0")
	one.container.giveUp()
	if one.recordEnd(); one.Exit.Signal != int(unix.SIGKILL) {
		t.Errorf("a command that was never started: %+v", one.Exit)
	}
}

// loaded returns the container of a worker that runs, as the shim that saves it has it.
func (w *liveWorker) loaded(pid int) *runcContainer {
	w.t.Helper()
	inner, err := libcontainer.Load(container.StateDir(w.dir), filepath.Base(w.dir))
	check(w.t, err)
	c := &runcContainer{dir: w.dir, inner: inner, pid: pid, detached: make(chan struct{}), ended: make(chan struct{})}
	close(c.detached)
	return c
}

// TestACriuThatCannotSave runs stand-ins for CRIU. It notices an image that is taken for whole, one that is
// left half, a worker that does not go on, and a CRIU that is given up and goes on to write.
func TestACriuThatCannotSave(t *testing.T) {
	dir := openTempDir(t)
	parent := filepath.Join(dir, "images")
	check(t, os.Mkdir(parent, 0o700))
	w := live(t, nil, script("echo ready; exec sleep 100"))
	pid := w.order(container.Order{Op: container.OpStatus}).Pid
	w.start().says("", "ready")
	c := w.loaded(pid)
	writes := filepath.Join(dir, "writes")
	check(t, os.WriteFile(writes, []byte("#!/bin/sh\nwhile echo x > "+dir+"/out; do sleep 0.01; done 2>/dev/null\n"),
		0o755))
	criu := func(path string) container.SaveOrder {
		return container.SaveOrder{Dir: filepath.Join(parent, "2"), Criu: container.Criu{Path: path}}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, one := range map[string]struct {
		order container.SaveOrder
		after func() (context.Context, context.CancelFunc)
		says  string
	}{
		"there is none": {criu("/none/criu"), nil, "CRIU cannot save it: "},
		"too late": {criu(writes), func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 200*time.Millisecond)
		}, "it took too long"},
		"given up": {criu(writes), func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			return ctx, cancel
		}, "it was given up"},
		"a place that others write": {container.SaveOrder{Dir: filepath.Join(os.TempDir(), "2")}, nil,
			"it cannot be saved: "},
	} {
		ctx := t.Context()
		if one.after != nil {
			var cancel context.CancelFunc
			ctx, cancel = one.after()
			defer cancel()
		}
		err := c.save(ctx, one.order)
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
		if err := os.Remove(dir + "/out"); (err == nil) != (one.after != nil) {
			t.Errorf("%s: CRIU has run: %v", name, err)
		}
	}
	there := filepath.Join(parent, "3")
	check(t, os.Mkdir(there, 0o700))
	if err := c.save(t.Context(), container.SaveOrder{Dir: there}); err == nil || !strings.Contains(err.Error(),
		"exists") {
		t.Errorf("an image that is there already: %v", err)
	}
	c.detached = make(chan struct{})
	for says, edit := range map[string]func() context.Context{
		"did not detach: it was given up": func() context.Context { return cancelled },
		"it ended before":                 func() context.Context { close(c.ended); return t.Context() },
	} {
		c.ended = make(chan struct{})
		if err := c.save(edit(), criu("/none")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %s", err, says)
		}
	}
	w.order(container.Order{Op: container.OpKill})
	w.end()
}

// TestAMountOfTheMachineInAContainer notices a worker that is saved though it shows a file system that the machine
// has mounted inside of a directory of its job.
func TestAMountOfTheMachineInAContainer(t *testing.T) {
	dir := openTempDir(t)
	inside, images := filepath.Join(dir, "a b"), filepath.Join(dir, "images")
	check(t, errors.Join(os.Mkdir(inside, 0o755), os.Mkdir(images, 0o700)))
	for _, mounted := range []bool{false, true} {
		if mounted {
			check(t, unix.Mount("tmpfs", inside, "tmpfs", 0, "size=64k"))
			defer func() { check(t, unix.Unmount(inside, unix.MNT_DETACH)) }()
		}
		p := script("echo ready; exec sleep 100")
		p.edit = bindAt("/mnt", dir)
		w := live(t, nil, p).start()
		w.says("", "ready")
		c := w.loaded(w.order(container.Order{Op: container.OpStatus}).Pid)
		err := c.save(t.Context(), container.SaveOrder{Dir: filepath.Join(images, "1"), Criu: container.Criu{Path: "/none"}})
		if err == nil || strings.Contains(err.Error(), "file system mounted at /mnt/a b, inside") != mounted {
			t.Errorf("mounted %t: %v", mounted, err)
		}
		w.order(container.Order{Op: container.OpKill})
		w.end()
	}
}

// TestOrdersToAContainerWithoutAChannel: signals are kept until it is restored, or go by the kernel; a kill ends what
// has no process.
func TestOrdersToAContainerWithoutAChannel(t *testing.T) {
	sup := idle(t)
	c := sup.tasks[0].container
	check(t, c.signal(unix.SIGUSR1, ""))
	check(t, c.stop(unix.SIGTERM, ""))
	if len(c.pending) != 2 || c.pending[0] != unix.SIGUSR1 || c.pending[1] != unix.SIGTERM {
		t.Errorf("before it is restored it keeps %v", c.pending)
	}
	check(t, c.signal(unix.SIGKILL, ""))
	if !c.hasEnded() {
		t.Error("a kill is kept for later")
	}
	c = idle(t).tasks[0].container
	if c.stop(unix.SIGKILL, "") != nil || !c.hasEnded() {
		t.Error("a stop by SIGKILL is kept for later")
	}
	c = idle(t).tasks[0].container
	c.restoring = true
	check(t, c.kill())
	time.Sleep(30 * time.Millisecond)
	if c.hasEnded() {
		t.Error("CRIU is at it, and what it restores is taken for ended")
	}
	c.giveUp()
	ours, theirs := net.Pipe()
	c = &runcContainer{channel: ours, detached: make(chan struct{}), ended: make(chan struct{})}
	go func() { c.askToDetach(); c.askToDetach(); _ = ours.Close() }()
	if asked, err := io.ReadAll(theirs); err != nil || string(asked) != "{\"detach\":true}\n" || !c.detaching {
		t.Errorf("it is asked to detach by %q, %v", asked, err)
	}
	close(c.ended)
	check(t, c.signal(unix.SIGTERM, "")) // its inner container would be asked if it had not ended
	c.signalDetached(nil, unix.SIGTERM)
}
