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
	"unicode"
	"unicode/utf8"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// # Save and restore
//
// A worker of one task is saved by CRIU: its processes are written into an image, and end. First
// rota-init closes its socket to the shim, which CRIU cannot save, and is from then on detached, also
// if the container goes on. A helper process saves, so that the shim can go on meanwhile, and give it
// up: then CRIU may not write any more, fails, and lets the processes go on where they were. It is not
// killed for that, because its own code runs in them at times. CRIU ends the processes when it has
// written everything.
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
	lost   string // why neither the worker nor an image of it is left; "": that is not so
	ended  *task  // it has ended while it was being saved
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
	case sup.job.connected():
		return errors.New("the worker cannot be saved: its processes have a connection to its job socket, " +
			"$ROTA_SOCKET, which leads out of the container")
	case sup.io.own != nil || sup.io.processes() > 0:
		return errors.New("the worker cannot be saved: it has a terminal, or a person runs a process in it")
	case sup.memory.away():
		return errors.New("the worker cannot be saved: the driver has its GPU memory")
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
		if errors.Is(err, errHangs) || errors.Is(err, errUnfinished) {
			s.lost = s.Problem
		}
		if errors.Is(err, errHangs) {
			sup.killAll()
		}
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
	err := errors.Join(container.CheckPrivate(filepath.Dir(o.Dir)), c.checkMounts())
	if err == nil {
		err = os.RemoveAll(part) // of a shim that was killed
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
	if err := c.runSaveHelper(ctx, o); err != nil {
		return err
	}
	for _, name := range []string{dumpLog, "stats-dump"} {
		_ = os.Remove(filepath.Join(part, name)) // of no use any more
	}
	if err := container.FinishImage(o.Dir, o.Criu); err != nil {
		return fmt.Errorf("%w: %w", errUnfinished, err)
	}
	return nil
}

// checkMounts returns an error if the container shows a file system that the machine has mounted inside
// of a directory that was mounted into it. CRIU would save a copy, or nothing.
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

// unescape undoes how the kernel writes paths in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// dumpLog is what CRIU writes into an image while it saves.
const dumpLog = "dump.log"

// givenUpPatience is how long CRIU may take to leave the processes alone.
const givenUpPatience = 10 * time.Second

// errUnfinished is the end of a container whose image could not be written to its end.
var errUnfinished = errors.New("CRIU has ended the processes, and their image is not whole")

// errHangs is the end of a CRIU that has not left the processes alone in time. They may be damaged.
var errHangs = errors.New("CRIU hung, and the worker was killed with it")

// runSaveHelper runs the helper. When ctx ends, it has CRIU fail, unless all is written already.
func (c *runcContainer) runSaveHelper(ctx context.Context, o container.SaveOrder) error {
	runtime.LockOSThread() // the helper ends when the thread that has started it does
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
	case err == nil:
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

// forbidWriting has every write of a process group to a file fail. A process that is being made has the
// limit of the one that makes it, which is the first of the group, or comes after it.
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

// serveSave is the helper: it saves the container that libcontainer knows by a name into a directory.
func serveSave(args []string) error {
	if len(args) != 3 {
		return errors.New("it takes a state, a name and a directory")
	}
	signal.Ignore(unix.SIGXFSZ) // of forbidWriting
	c, err := libcontainer.Load(args[0], args[1])
	if err != nil {
		return err
	}
	return c.Checkpoint(&libcontainer.CriuOpts{ImagesDirectory: args[2], FileLocks: true, ManageCgroupsMode: "ignore"})
}

// libcontainer starts what is called criu in PATH. That is this program, by a link: it becomes CRIU,
// but one that the kernel ends with its parent. CRIU may wait for ever for a process that was killed.
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

// becomeCriu returns only if that fails.
func becomeCriu() error {
	signal.Ignore(unix.SIGXFSZ) // of forbidWriting: CRIU is to fail, and not to die of it
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return unix.Exec(os.Getenv(criuEnv), os.Args, os.Environ())
}

// complaintMax is how much of CRIU's complaint is kept, in bytes.
const complaintMax = 300

// harmless are what CRIU calls errors and goes on after.
var harmless = []string{"rlimit: Can't setup", "tun: Unable to create tun"}

// complaint returns the first error in a log of CRIU's that counts, or err if there is none.
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
			return printable(text[:min(len(text), complaintMax)])
		}
	}
	return err.Error()
}

// printable replaces what does not belong into a message: file names in it are the job's.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
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
		// CRIU makes the first process a child of this thread, which must not end before it. It ends with
		// this goroutine, and with it what it has of its own.
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

// restoreHere gives the calling thread a session keyring and a mount namespace of its own. libcontainer
// mounts on the root directory of all containers for a moment, and nothing of that may be seen by others,
// or stay behind if this process is killed.
func (c *runcContainer) restoreHere(r *container.Restore, out *logs) error {
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
	c.process = &libcontainer.Process{Init: true, Stdout: out.stdout, Stderr: out.stderr}
	err = c.inner.Restore(c.process, &libcontainer.CriuOpts{ImagesDirectory: r.Dir, WorkDirectory: work, FileLocks: true,
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
