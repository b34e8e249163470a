package shim

import (
	"errors"
	"runtime"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/criu"
	"github.com/rota-hpc/rota/noded/shim/output"
	"github.com/rota-hpc/rota/noded/shim/userfiles"
)

// A restored container does not start its command. CRIU makes all its processes and leaves them
// stopped, until the shim has checked their mounts. The container is a child of the shim like any
// other, and detached from the beginning.

// startOrRestore starts the worker, or begins to restore it from an image. A restored worker counts
// as running once restored has handled the outcome.
func (sup *supervisor) startOrRestore() {
	m := &sup.image
	switch {
	case sup.settings.Restore == nil:
		sup.state = container.Running // run then starts the tasks that are due
	case m.phase == awaited && !sup.NoMoreStarts:
		m.phase = m.phase.after(startOrdered)
		sup.tasks[0].container.restoring = true
		go func() { m.over <- sup.tasks[0].restore(sup.settings.Restore) }()
	}
}

// restored handles the outcome of a restore. After a failure nothing of the worker may live on.
func (sup *supervisor) restored(err error) {
	m, t := &sup.image, sup.tasks[0]
	if err == nil {
		err = t.container.noteRestored()
	}
	if m.phase = m.phase.after(restoredAs(err)); m.phase == unrestored {
		m.why = err.Error()
		sup.killAll()
		return
	}
	sup.state, t.State = container.Running, container.Running
	sup.announce()
}

// restore brings the container back from an image. No process runs before the guards have verified
// that its mounts show only files that the user may see. An attacker could have swapped a mount
// meanwhile.
func (t *task) restore(r *container.Restore) error {
	g, err := userfiles.OpenGuards(t.Guards, t.user)
	if err != nil {
		t.container.giveUp()
		return err
	}
	defer g.Close()
	if err := t.container.restore(r, t.logs); err != nil {
		return err
	}
	pid, err := t.container.process.Pid()
	if err == nil {
		err = g.Verify(pid)
	}
	if err != nil {
		return err
	}
	return t.container.resumeStopped()
}

// restore returns when all processes of the container exist and are stopped.
func (c *runcContainer) restore(r *container.Restore, out *output.Logs) error {
	if _, err := container.ReadSaved(r.Dir); err != nil {
		c.giveUp()
		return err
	}
	done := make(chan error)
	go func() {
		// CRIU makes the container's first process a child of this thread, so the thread must
		// outlive it. The thread stays locked: it ends with this goroutine, and so do its mount
		// namespace and its keyring.
		runtime.LockOSThread()
		c.process = &libcontainer.Process{Init: true, Stdout: out.Stdout, Stderr: out.Stderr}
		err := criu.Restore(c.inner, c.process, container.StateDir(c.dir), r)
		out.CloseContainerEnds()
		if err != nil {
			c.giveUp()
		}
		done <- err
		if err == nil {
			c.wait()
		}
	}()
	return <-done
}

// noteRestored notes the first process of a restored container. libcontainer learns the start time
// of that process only when it reads its own state again.
func (c *runcContainer) noteRestored() error {
	inner, err := libcontainer.Load(container.StateDir(c.dir), c.inner.ID())
	if err != nil {
		return err
	}
	c.inner = inner
	if err := c.noteProcess(); err != nil {
		return err
	}
	c.unborn, c.executed = false, true
	for _, s := range c.pending {
		_ = c.signal(s, "") // it may have ended
	}
	return nil
}

// resumeStopped lets all processes of a restored container run.
func (c *runcContainer) resumeStopped() error {
	list, err := c.processes()
	if err != nil {
		return err
	}
	for _, pid := range list {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// killRestoring kills CRIU and everything that it has restored so far. It repeats that until the
// container has ended, because CRIU may be about to make another process.
func (c *runcContainer) killRestoring(inner *libcontainer.Container) {
	for {
		list, _ := inner.Processes() // the cgroup is gone when the container has ended
		for _, pid := range list {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		select {
		case <-c.ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// giveUp marks the container as ended, because it has no process and will have none.
func (c *runcContainer) giveUp() {
	c.endOnce.Do(func() {
		c.waitErr = errors.New("it was not restored")
		close(c.ended)
	})
}
