package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// # Save and restore
//
// A worker of one task is saved by CRIU: its processes are written into an image, and end. First
// rota-init closes its socket to the shim, which CRIU cannot save, and is from then on detached, also
// if the container goes on. A helper process saves, so that the shim can end it at any time with all
// that it has started. CRIU ends the processes when it has written everything; until then it can be
// given up, and the container goes on.
//
// A container is restored in place of starting its command. All its processes are stopped at first,
// until its mounts have been checked. It is a child of the shim like one that was started, and detached
// from the beginning.

// saveHelper is the argument with which a shim starts itself to save a container, see [Reexec].
const saveHelper = "save-helper"

// saving is what is known of the last order to save the worker.
type saving struct {
	container.Saving
	busy   bool
	cancel context.CancelFunc
	over   chan error // what came of it; nil: its image is whole
	whole  bool
	ended  *task // it has ended while it was being saved
}

func newSaving() saving { return saving{cancel: func() {}, over: make(chan error, 1)} }

// save begins to save the worker, once for each directory.
func (sup *supervisor) save(o container.SaveOrder) error {
	s := &sup.saving
	switch {
	case sup.state != container.Running:
		return errors.New("the worker does not run")
	case o.Dir == s.Dir:
		return nil
	case s.busy:
		return fmt.Errorf("the worker is being saved into %s", s.Dir)
	case sup.shared != nil:
		return errors.New("a worker of several tasks cannot be saved: CRIU saves one container")
	case sup.job.used():
		return errors.New("the worker cannot be saved: its processes have a connection to its job socket, " +
			"$ROTA_SOCKET, which leads out of the container")
	case sup.memory.away():
		return errors.New("the worker cannot be saved: the driver has its GPU memory")
	case filepath.Base(o.Criu.Path) != "criu":
		return fmt.Errorf("%s: the program must be called criu", o.Criu.Path)
	}
	sup.wake() // what is frozen answers nothing
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.WithinMS)*time.Millisecond)
	s.Dir, s.Problem, s.busy, s.cancel = o.Dir, "", true, cancel
	c := sup.tasks[0].container
	c.askToDetach()
	go func() {
		defer cancel()
		s.over <- c.save(ctx, o)
	}()
	return nil
}

// saved takes the outcome. Whatever has become of CRIU, nothing stays frozen.
func (sup *supervisor) saved(err error) {
	s := &sup.saving
	s.busy, s.whole = false, err == nil
	if err != nil {
		s.Problem = err.Error()
		_ = sup.tasks[0].container.thaw() // it is not frozen, or has ended
		sup.announce()
	}
	if s.ended != nil {
		sup.taskEnded(s.ended)
	}
}

// askToDetach has rota-init close the channel. Signals go by the kernel from then on.
func (c *runcContainer) askToDetach() {
	if !c.detaching {
		c.detaching = true
		_, _ = c.channel.Write([]byte("{\"detach\":true}\n")) // if it cannot be asked, save waits in vain
	}
}

// save saves the container into the directory of o. It returns when the image is whole, or when the
// container has been left alone.
func (c *runcContainer) save(ctx context.Context, o container.SaveOrder) error {
	select {
	case <-c.detached:
	case <-c.ended:
		return errors.New("it ended before")
	case <-ctx.Done():
		return fmt.Errorf("rota-init did not detach: %w", endOf(ctx))
	}
	part := container.PartOfImage(o.Dir)
	err := os.RemoveAll(part) // of a shim that was killed
	if err == nil {
		err = os.Mkdir(part, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make a directory for the image: %w", err)
	}
	defer os.RemoveAll(part)
	if err := c.runSaveHelper(ctx, o); err != nil {
		return err
	}
	for _, name := range []string{dumpLog, "stats-dump"} {
		_ = os.Remove(filepath.Join(part, name)) // of no use any more
	}
	return container.FinishImage(o.Dir, o.Criu)
}

// dumpLog is what CRIU writes into an image while it saves.
const dumpLog = "dump.log"

// runSaveHelper runs the helper, and ends it with CRIU when ctx ends.
func (c *runcContainer) runSaveHelper(ctx context.Context, o container.SaveOrder) error {
	runtime.LockOSThread() // the helper ends when the thread that has started it does
	defer runtime.UnlockOSThread()
	part := container.PartOfImage(o.Dir)
	cmd := exec.Command("/proc/self/exe", saveHelper, container.StateDir(c.dir), c.inner.ID(), part)
	cmd.Env = []string{"PATH=" + pathTo(o.Criu)}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })()
	err := cmd.Wait()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return endOf(ctx)
	}
	return fmt.Errorf("CRIU cannot save it: %s", complaint(filepath.Join(part, dumpLog), err))
}

func endOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("it took too long")
	}
	return errors.New("it was given up, because the worker is to stop")
}

// serveSave is the helper: it saves the container that libcontainer knows by a name into a directory.
func serveSave(args []string) error {
	if len(args) != 3 {
		return errors.New("it takes a state, a name and a directory")
	}
	c, err := libcontainer.Load(args[0], args[1])
	if err != nil {
		return err
	}
	return c.Checkpoint(&libcontainer.CriuOpts{ImagesDirectory: args[2], FileLocks: true, ManageCgroupsMode: "ignore"})
}

// pathTo returns the PATH by which libcontainer finds CRIU, and CRIU finds tar.
func pathTo(criu container.Criu) string {
	return filepath.Dir(criu.Path) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// complaintMax is how much of CRIU's complaint is kept, in bytes.
const complaintMax = 300

// complaint returns the first error in a log of CRIU's, or err if there is none. That CRIU cannot raise
// its own limits is no reason.
func complaint(path string, err error) string {
	f, openErr := os.Open(path)
	if openErr != nil {
		return err.Error()
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, text, is := strings.Cut(lines.Text(), "Error ("); is {
			if _, rest, ok := strings.Cut(text, "): "); ok {
				text = rest
			}
			if strings.HasPrefix(text, "rlimit: Can't setup") {
				continue
			}
			return strings.ToValidUTF8(text[:min(len(text), complaintMax)], "")
		}
	}
	return err.Error()
}

// configOfCriu is the file with options for CRIU that libcontainer cannot pass on. It exists while the
// container is restored. Without its name there, CRIU reads /etc/criu/runc.conf.
func configOfCriu(dir string) string { return filepath.Join(container.StateDir(dir), "criu.conf") }

// restoring is how far a worker has come that goes on from an image.
type restoring struct {
	begun, busy bool
	over        chan error // what came of it
	err         error      // why it was not restored
	ended       *task      // it has ended meanwhile
}

// startOrRestore starts the worker. One that goes on from an image runs later, when it is restored.
func (sup *supervisor) startOrRestore() {
	r := &sup.restoring
	switch {
	case sup.settings.Restore == nil:
		sup.state = container.Running // run then starts the tasks that are due
	case !r.begun && !sup.noMoreStarts:
		r.begun, r.busy = true, true
		sup.tasks[0].container.restoring = true
		go func() { r.over <- sup.tasks[0].restore(sup.settings.Restore) }()
	}
}

func (sup *supervisor) restored(err error) {
	r, t := &sup.restoring, sup.tasks[0]
	if err == nil {
		err = t.container.noteRestored()
	}
	if r.busy, r.err = false, err; err != nil {
		sup.killAll()
	} else {
		sup.state, t.state = container.Running, container.Running
		sup.announce()
	}
	if r.ended != nil {
		sup.taskEnded(r.ended)
	}
}

// restore has the container go on from an image, and checks that it shows only what its user may see
// before any of its processes runs.
func (t *task) restore(r *container.Restore) error {
	g, err := openGuards(t.Guards, t.user)
	if err != nil {
		t.container.giveUp()
		return err
	}
	defer g.close()
	if err := t.container.restore(r, t.logs); err != nil {
		return err
	}
	pid, err := t.container.process.Pid()
	if err == nil {
		err = g.verify(pid)
	}
	if err != nil {
		return err
	}
	return t.container.resumeStopped()
}

// restore returns when all processes of the container are there, and stopped.
func (c *runcContainer) restore(r *container.Restore, out *logs) error {
	if _, err := container.ReadSaved(r.Dir); err != nil {
		c.giveUp()
		return err
	}
	done := make(chan error)
	go func() {
		// CRIU makes the first process a child of this thread, which must not end before it.
		runtime.LockOSThread()
		err := c.restoreHere(r, out)
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

func (c *runcContainer) restoreHere(r *container.Restore, out *logs) error {
	if keyringsAllowed() { // a restored process has the session keyring of CRIU
		if err := joinNewKeyring(); err != nil {
			return fmt.Errorf("make a session keyring: %w", err)
		}
	}
	if err := os.Setenv("PATH", pathTo(r.Criu)); err != nil {
		return err
	}
	config := configOfCriu(c.dir)
	if err := os.WriteFile(config, []byte("leave-stopped\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(config)
	work := filepath.Join(container.StateDir(c.dir), "restore")
	defer os.RemoveAll(work)
	c.process = &libcontainer.Process{Init: true, Stdout: out.stdout, Stderr: out.stderr}
	err := c.inner.Restore(c.process, &libcontainer.CriuOpts{ImagesDirectory: r.Dir, WorkDirectory: work, FileLocks: true,
		ManageCgroupsMode: "ignore"})
	out.closeContainerEnds()
	if err != nil {
		return fmt.Errorf("CRIU cannot restore it from %s: %s", r.Dir, complaint(filepath.Join(work, "restore.log"), err))
	}
	return nil
}

// noteRestored notes the first process of a restored container. libcontainer knows when that has started
// only after it has read its own state again.
func (c *runcContainer) noteRestored() error {
	inner, err := libcontainer.Load(container.StateDir(c.dir), c.inner.ID())
	if err != nil {
		return err
	}
	c.inner = inner
	return c.noteProcess()
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

// killRestoring ends CRIU with all that it has restored so far, until nothing is left: CRIU may be about
// to make another process.
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

// giveUp notes that the container has no process and will have none.
func (c *runcContainer) giveUp() {
	c.endOnce.Do(func() {
		c.waitErr = errors.New("it was not restored")
		close(c.ended)
	})
}
