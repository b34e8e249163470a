package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/criu"
)

// save begins to save the worker. An order with the same directory is the same order again and
// changes nothing.
func (sup *supervisor) save(o container.SaveOrder) error {
	m := &sup.image
	switch {
	case sup.state != container.Running:
		return errors.New("the worker does not run")
	case o.Dir == m.save.Dir:
		return nil
	}
	if err := sup.unsavable(); err != nil {
		return err
	}
	sup.wake() // a frozen rota-init could not detach
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.WithinMS)*time.Millisecond)
	m.phase, m.save, m.cancel = m.phase.after(saveOrdered), container.Saving{Dir: o.Dir}, cancel
	c := sup.tasks[0].container
	c.askToDetach()
	go func() {
		defer cancel()
		m.over <- c.save(ctx, o)
	}()
	return nil
}

// unsavable returns why the worker cannot be saved now. Each check refuses something that CRIU would
// break or could not save.
func (sup *supervisor) unsavable() error {
	m := &sup.image
	switch {
	case m.phase == saving:
		return fmt.Errorf("the worker is being saved into %s", m.save.Dir)
	case m.phase.after(saveOrdered) != saving:
		return errors.New("the worker cannot be saved: its processes are being stopped")
	case sup.shared != nil:
		return errors.New("a worker of several tasks cannot be saved: CRIU saves one container")
	case sup.job.Connected():
		return errors.New("the worker cannot be saved: its processes have a connection to the job socket, $ROTA_SOCKET, " +
			"which leads outside the container")
	case sup.io.Own != nil || sup.io.Processes() > 0:
		return errors.New("the worker cannot be saved: it has a terminal, or a process started by rota exec")
	case sup.memory.away():
		return errors.New("the worker cannot be saved: the GPU driver holds its GPU memory")
	}
	return nil
}

// saved handles the outcome of a save.
func (sup *supervisor) saved(err error) {
	m := &sup.image
	event := savedAs(err)
	if m.phase = m.phase.after(event); m.phase == saved {
		return
	}
	m.save.Problem = err.Error()
	if m.phase == lost {
		m.why = m.save.Problem
	}
	if event == criuHung {
		sup.killAll() // the processes may be damaged
	}
	_ = sup.tasks[0].container.thaw() // whatever CRIU left; it is not frozen, or has ended
	sup.announce()
}

// askToDetach asks rota-init to close the channel. From then on signals go through the kernel, even if
// the save fails.
func (c *runcContainer) askToDetach() {
	if !c.detaching {
		c.detaching = true
		_, _ = c.channel.Write([]byte("{\"detach\":true}\n")) // if it cannot be asked, save waits in vain
	}
}

// save saves the container into the directory of o. It returns when the image is whole, or when
// CRIU no longer touches the container.
func (c *runcContainer) save(ctx context.Context, o container.SaveOrder) error {
	select {
	case <-c.detached: // CRIU could not save the socket
	case <-c.ended:
		return errors.New("it ended before")
	case <-ctx.Done():
		return fmt.Errorf("rota-init did not detach: %w", criu.EndOf(ctx))
	}
	return criu.Save(ctx, criu.Processes{Container: c.inner, State: container.StateDir(c.dir), Pid: c.pid}, o)
}
