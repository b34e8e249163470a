package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/output"
	"github.com/rota-hpc/rota/noded/shim/userfiles"
)

// # Save and restore
//
// CRIU saves a worker of one task: it writes the processes into an image and then ends them.
//
//	save      the shim checks that nothing of the worker leads out of the container
//	detach    rota-init closes its socket to the shim, because CRIU cannot save that socket; it stays
//	          detached, even if the save fails
//	helper    a process of its own runs CRIU, so the shim keeps answering meanwhile
//	give up   the shim forbids the helper to write files: CRIU fails and lets the processes go on;
//	          CRIU is not killed, because at times its code runs inside the processes
//	saved     the image is whole and the processes have ended; or the container goes on
//
// A restored container does not start its command. CRIU makes all its processes and leaves them
// stopped, until the shim has checked their mounts. The container is a child of the shim like any
// other, and detached from the beginning.

// saveHelper is the argument with which a shim starts itself to save a container, see [Reexec].
const saveHelper = "save-helper"

// saving is the state of the last order to save the worker.
type saving struct {
	container.Saving
	busy   bool
	cancel context.CancelFunc
	over   chan error // gets the outcome; nil: the image is whole
	whole  bool
	lost   string // why both the worker and its image are lost; "": one of them is left
	ended  *task  // the task, if it ended during the save: its end is handled afterwards
}

func newSaving() saving { return saving{cancel: func() {}, over: make(chan error, 1)} }

// save begins to save the worker. An order with the same directory is the same order again and
// changes nothing. The checks come first: each refuses something that CRIU would break or could not
// save.
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
	case sup.job.Connected():
		return errors.New("the worker cannot be saved: its processes have a connection to its job socket, " +
			"$ROTA_SOCKET, which leads out of the container")
	case sup.io.Own != nil || sup.io.Processes() > 0:
		return errors.New("the worker cannot be saved: it has a terminal, or a person runs a process in it")
	case sup.memory.away():
		return errors.New("the worker cannot be saved: the driver has its GPU memory")
	}
	sup.wake() // a frozen rota-init could not detach
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

// saved handles the outcome of a save. After a failure the container is thawed, whatever CRIU left.
func (sup *supervisor) saved(err error) {
	s := &sup.saving
	s.busy, s.whole = false, err == nil
	if err != nil {
		s.Problem = err.Error()
		if errors.Is(err, errHangs) || errors.Is(err, errUnfinished) {
			s.lost = s.Problem
		}
		if errors.Is(err, errHangs) {
			sup.killAll()
		}
		_ = sup.tasks[0].container.thaw() // it is not frozen, or has ended
		sup.announce()
	}
	// The task's end was held back until it was clear whether it ended by the save or by itself.
	if s.ended != nil {
		sup.taskEnded(s.ended)
	}
}

// askToDetach asks rota-init to close the channel. From then on signals go through the kernel.
func (c *runcContainer) askToDetach() {
	if !c.detaching {
		c.detaching = true
		_, _ = c.channel.Write([]byte("{\"detach\":true}\n")) // if it cannot be asked, save waits in vain
	}
}

// save saves the container into the directory of o. It returns when the image is whole, or when
// CRIU no longer touches the container.
func (c *runcContainer) save(ctx context.Context, o container.SaveOrder) error {
	// 1. Wait until rota-init has closed its socket.
	select {
	case <-c.detached:
	case <-c.ended:
		return errors.New("it ended before")
	case <-ctx.Done():
		return fmt.Errorf("rota-init did not detach: %w", endOf(ctx))
	}
	// 2. Make an empty directory for the image. Its name says that it is unfinished, and only root may
	// change it: root restores from it.
	part := container.PartOfImage(o.Dir)
	err := errors.Join(container.CheckPrivate(filepath.Dir(o.Dir)), c.checkMounts())
	if err == nil {
		err = os.RemoveAll(part) // a shim that was killed may have left one
	}
	if err == nil {
		err = os.Mkdir(part, 0o700)
	}
	if err != nil {
		return fmt.Errorf("it cannot be saved: %w", err)
	}
	defer os.RemoveAll(part)
	if _, err := os.Lstat(o.Dir); err == nil {
		return fmt.Errorf("%s exists already", o.Dir)
	}
	// 3. Save. If this succeeds, the processes have ended and the image is all that is left.
	if err := c.runSaveHelper(ctx, o); err != nil {
		return err
	}
	// 4. Give the image its final name, durably. An image under its final name is whole.
	for _, name := range []string{dumpLog, "stats-dump"} {
		_ = os.Remove(filepath.Join(part, name)) // of no use any more
	}
	if err := container.FinishImage(o.Dir, o.Criu); err != nil {
		return fmt.Errorf("%w: %w", errUnfinished, err)
	}
	return nil
}

// checkMounts returns an error for a mount that is not the container's own. The machine may have
// mounted a file system inside a directory that the container shows. CRIU would save a copy of it,
// or nothing.
func (c *runcContainer) checkMounts() error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.pid))
	if err != nil {
		return err
	}
	config := c.inner.Config()
	own := append([]string{"/"}, slices.Concat(config.MaskPaths, config.ReadonlyPaths)...)
	for _, m := range config.Mounts {
		own = append(own, m.Destination)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return fmt.Errorf("mounts of the container: %q is no line of the kernel's", line)
		}
		at := unescape.Replace(fields[4])
		if !slices.Contains(own, at) {
			return fmt.Errorf("the machine has a file system at %s, inside of a directory that the container shows", at)
		}
	}
	return nil
}

// unescape decodes paths in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// dumpLog is CRIU's log in an image while it saves.
const dumpLog = "dump.log"

// givenUpPatience is how long CRIU may take to let the processes go after it was given up.
const givenUpPatience = 10 * time.Second

// errUnfinished says that the processes have ended and the image could not be finished.
var errUnfinished = errors.New("CRIU has ended the processes, and their image is not whole")

// errHangs says that CRIU did not let the processes go in time. They may be damaged.
var errHangs = errors.New("CRIU hung, and the worker was killed with it")

// runSaveHelper runs the helper. When ctx ends, it makes CRIU fail, unless everything is written
// already. A helper that still runs after givenUpPatience is killed with all of its group.
func (c *runcContainer) runSaveHelper(ctx context.Context, o container.SaveOrder) error {
	runtime.LockOSThread() // Pdeathsig goes by the thread that started the helper
	defer runtime.UnlockOSThread()
	part := container.PartOfImage(o.Dir)
	env, err := c.envOfCriu(o.Criu)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", saveHelper, container.StateDir(c.dir), c.inner.ID(), part)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	var hung atomic.Bool
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		forbidWriting(cmd.Process.Pid)
		select {
		case <-done:
		case <-time.After(givenUpPatience):
			hung.Store(true)
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // it may have ended
		}
	}()
	err = cmd.Wait()
	close(done)
	switch {
	case err == nil: // whole, even if ctx ended in the last moment
		return nil
	case hung.Load():
		return errHangs
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

// forbidWriting makes every write to a file fail in all processes of a group, by a file size limit
// of 0. A child inherits the limit of its parent. The first process of the group is limited first.
// So a child that is made during the walk over /proc is limited already, or comes later in the
// walk.
func forbidWriting(group int) {
	none := unix.Rlimit{}
	_ = unix.Prlimit(group, unix.RLIMIT_FSIZE, &none, nil) // it may have ended
	files, _ := filepath.Glob("/proc/[0-9]*")              // the pattern is well formed
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(file))
		if err != nil {
			continue
		}
		if g, err := unix.Getpgid(pid); err == nil && g == group {
			_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &none, nil) // the same
		}
	}
}

// serveSave is the helper's main function. Its arguments are libcontainer's state directory, the
// name of the container there, and the directory of the image.
func serveSave(args []string) error {
	if len(args) != 3 {
		return errors.New("it takes a state, a name and a directory")
	}
	signal.Ignore(unix.SIGXFSZ) // forbidWriting shall make writes fail, not kill
	c, err := libcontainer.Load(args[0], args[1])
	if err != nil {
		return err
	}
	return c.Checkpoint(&libcontainer.CriuOpts{ImagesDirectory: args[2], FileLocks: true, ManageCgroupsMode: "ignore"})
}

// libcontainer starts the program criu from PATH. There it finds a link to this program, which asks
// the kernel to kill it with its parent and then becomes CRIU. Without that, CRIU may wait for ever
// for a process that was killed.
const (
	criuName = "criu"
	criuEnv  = "ROTA_CRIU" // names CRIU itself
)

// envOfCriu returns the variables by which libcontainer finds CRIU, and CRIU finds tar.
func (c *runcContainer) envOfCriu(criu container.Criu) (map[string]string, error) {
	dir := filepath.Join(container.StateDir(c.dir), "bin")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Symlink("/proc/self/exe", filepath.Join(dir, criuName))
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make a link to CRIU: %w", err)
	}
	return map[string]string{criuEnv: criu.Path,
		"PATH": dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, nil
}

// becomeCriu replaces this program by CRIU. It returns only after a failure.
func becomeCriu() error {
	signal.Ignore(unix.SIGXFSZ) // forbidWriting shall make CRIU fail, not kill it
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return unix.Exec(os.Getenv(criuEnv), os.Args, os.Environ())
}

// complaintMax is the length in bytes at which CRIU's message is cut.
const complaintMax = 300

// harmless are beginnings of messages that CRIU calls errors and goes on after.
var harmless = []string{"rlimit: Can't setup", "tun: Unable to create tun"}

// complaint returns the first error that counts in CRIU's log, or else the text of err.
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
			if slices.ContainsFunc(harmless, func(h string) bool { return strings.HasPrefix(text, h) }) {
				continue
			}
			return container.Printable(text[:min(len(text), complaintMax)])
		}
	}
	return err.Error()
}

// configOfCriu returns the path of the file with options for CRIU that libcontainer cannot pass on.
// It exists during a restore. CRIU would read /etc/criu/runc.conf instead if no file were named.
func configOfCriu(dir string) string { return filepath.Join(container.StateDir(dir), "criu.conf") }

// restoring is the state of a restore.
type restoring struct {
	begun, busy bool
	over        chan error // gets the outcome
	err         error      // why the restore failed
	ended       *task      // the task, if it ended during the restore
}

// startOrRestore starts the worker, or begins to restore it from an image. A restored worker counts
// as running once restored has handled the outcome.
func (sup *supervisor) startOrRestore() {
	r := &sup.restoring
	switch {
	case sup.settings.Restore == nil:
		sup.state = container.Running // run then starts the tasks that are due
	case !r.begun && !sup.NoMoreStarts:
		r.begun, r.busy = true, true
		sup.tasks[0].container.restoring = true
		go func() { r.over <- sup.tasks[0].restore(sup.settings.Restore) }()
	}
}

// restored handles the outcome of a restore. After a failure nothing of the worker may live on.
func (sup *supervisor) restored(err error) {
	r, t := &sup.restoring, sup.tasks[0]
	if err == nil {
		err = t.container.noteRestored()
	}
	if r.busy, r.err = false, err; err != nil {
		sup.killAll()
	} else {
		sup.state, t.State = container.Running, container.Running
		sup.announce()
	}
	if r.ended != nil {
		sup.taskEnded(r.ended)
	}
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

// restoreHere restores in the calling thread, after it has given the thread a session keyring and a
// mount namespace of its own. libcontainer mounts over the root directory of all containers for a
// moment. No other process may see that, and it must not stay behind if this process is killed.
func (c *runcContainer) restoreHere(r *container.Restore, out *output.Logs) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to the mount namespace: %w", err)
	}
	if keyringsAllowed() { // a restored process has the session keyring of CRIU
		if err := joinNewKeyring(); err != nil {
			return fmt.Errorf("make a session keyring: %w", err)
		}
	}
	env, err := c.envOfCriu(r.Criu)
	if err != nil {
		return err
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	config := configOfCriu(c.dir)
	if err := os.WriteFile(config, []byte("leave-stopped\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(config)
	work := filepath.Join(container.StateDir(c.dir), "restore")
	defer os.RemoveAll(work)
	c.process = &libcontainer.Process{Init: true, Stdout: out.Stdout, Stderr: out.Stderr}
	err = c.inner.Restore(c.process, &libcontainer.CriuOpts{ImagesDirectory: r.Dir, WorkDirectory: work, FileLocks: true,
		ManageCgroupsMode: "ignore"})
	out.CloseContainerEnds()
	if err != nil {
		return fmt.Errorf("CRIU cannot restore it from %s: %s", r.Dir, complaint(filepath.Join(work, "restore.log"), err))
	}
	return nil
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
