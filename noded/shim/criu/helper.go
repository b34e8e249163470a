package criu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// SaveHelper is the argument with which a shim starts itself to save a container, see [ServeSave].
const SaveHelper = "save-helper"

// givenUpPatience is how long CRIU may take to let the processes go after it was given up.
const givenUpPatience = 10 * time.Second

// runHelper has a helper save the processes. When ctx ends, it makes CRIU fail, unless everything is
// written already.
func (p Processes) runHelper(ctx context.Context, o container.SaveOrder) error {
	runtime.LockOSThread() // Pdeathsig goes by the thread that started the helper
	defer runtime.UnlockOSThread()
	part := container.PartOfImage(o.Dir)
	env, err := environment(p.State, o.Criu)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", SaveHelper, p.State, p.Container.ID(), part)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	over := make(chan struct{})
	end := make(chan helperState, 1)
	go func() { end <- watch(ctx, cmd.Process.Pid, over) }()
	err = cmd.Wait()
	close(over)
	switch state := <-end; {
	case err == nil: // whole, even if ctx ended in the last moment
		return nil
	case state == killed:
		return ErrHangs
	case ctx.Err() != nil:
		return EndOf(ctx)
	}
	return fmt.Errorf("CRIU cannot save it: %s", complaint(filepath.Join(part, dumpLog), err))
}

// helperState is what was done about a helper.
type helperState int

const (
	// writing: it saves.
	writing helperState = iota
	// givenUp: it may not write any more, so CRIU fails and lets the processes go.
	givenUp
	// killed: it did not let them go in time. It was killed with all of its group.
	killed
)

// watch takes a helper from one state to the next until it is over, and returns the last state.
func watch(ctx context.Context, helper int, over <-chan struct{}) helperState {
	select {
	case <-over:
		return writing
	case <-ctx.Done():
		forbidWriting(helper)
	}
	select {
	case <-over:
		return givenUp
	case <-time.After(givenUpPatience):
		_ = unix.Kill(-helper, unix.SIGKILL) // it may have ended
		return killed
	}
}

// EndOf returns why a save was given up, from the end of its context.
func EndOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("it took too long")
	}
	return errors.New("it was given up, because the worker must stop")
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

// ServeSave is the helper's main function. Its arguments are libcontainer's state directory, the
// name of the container there, and the directory of the image.
func ServeSave(args []string) error {
	if len(args) != 3 {
		return errors.New("it needs a state, a name and a directory")
	}
	signal.Ignore(unix.SIGXFSZ) // forbidWriting shall make writes fail, not kill
	c, err := libcontainer.Load(args[0], args[1])
	if err != nil {
		return err
	}
	return c.Checkpoint(&libcontainer.CriuOpts{ImagesDirectory: args[2], FileLocks: true, ManageCgroupsMode: "ignore"})
}
