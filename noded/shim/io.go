package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
	"github.com/rota-hpc/rota/noded/shim/session"
)

// maxExecs is how many processes are started beside the ranks at a time.
const maxExecs = 64

// execute starts a process in a container of the worker.
func (sup *supervisor) execute(e container.Exec) (*session.Session, error) {
	t, err := sup.taskFor(e.Task)
	s := &sup.switching
	switch {
	case err != nil:
		return nil, err
	case sup.state != container.Running || t.State == container.Created:
		return nil, errors.New("its command has not started yet")
	case t.State != container.Running:
		return nil, session.ErrEnded
	case s.Ordered%2 == 1 || s.Done != s.Ordered:
		return nil, errors.New("it is suspended: no process can run in it until it resumes")
	case sup.image.phase == saving:
		return nil, errors.New("it is being saved")
	case sup.io.Processes() >= maxExecs:
		return nil, fmt.Errorf("%d processes were already started in it, the maximum at a time", maxExecs)
	}
	session, err := t.container.execute(e, &sup.io.Extern)
	if err != nil {
		return nil, fmt.Errorf("start a process in it: %w", err)
	}
	sup.io.Add(session)
	return session, nil
}

// taskFor returns the task of a name, or the leader.
func (sup *supervisor) taskFor(name string) (*task, error) {
	leader := lifecycle.LeaderOf(sup.taskStates())
	for _, t := range sup.tasks {
		if t.Name == name || name == "" && &t.TaskState == leader {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the worker has no task %q", name)
}

// hungUp stops the worker because no reader came back.
func (sup *supervisor) hungUp() {
	sup.isHungUp = true
	sup.io.Own.HangUp()
	if sup.state != container.Running {
		sup.killAll()
		return
	}
	_ = sup.signalTasks(func(*task) unix.Signal { return unix.SIGHUP }, "") // one that cannot be signalled is killed
	sup.wake()
	if sup.killAt == nil {
		sup.killAt = time.After(time.Duration(cmp.Or(sup.tasks[0].KillTimeout, defaultKillTimeout)) * time.Millisecond)
	}
}

// hungUpFor returns why the worker was stopped, "" if it was not hung up.
func (sup *supervisor) hungUpFor() string {
	if !sup.isHungUp {
		return ""
	}
	return fmt.Sprintf("its terminal was closed: nothing had been attached to it for %v",
		jobspec.Seconds(sup.settings.IO.HangUpMS/1000))
}

// execute starts a process beside the ranks, see [container.Exec].
func (c *runcContainer) execute(e container.Exec, use *session.Extern) (*session.Session, error) {
	spec, err := readSpec(c.dir)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(spec.Process)
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(launch.Exec{Args: e.Args, Env: e.Env, Dir: e.Dir})
	if err != nil {
		return nil, err
	}
	p.Init, p.Cwd, p.Args = false, "/", []string{launch.InitFile, "exec"}
	p.Env = append(slices.Clone(spec.Process.Env), launch.ExecEnv+"="+string(what))
	files, err := c.startWithFiles(p, e.Terminal)
	if err != nil {
		return nil, err
	}
	s := session.New(false, func(_ uint32, n unix.Signal) { _ = p.Signal(n) }) // it may have ended
	s.AddTask(0, files)
	s.Begin()
	pid, _ := p.Pid() // it was started
	ended := use.Begin(pid)
	go func() {
		state, _ := p.Wait() // the state says it
		ended(state)
		exit := exitOf(state)
		s.TaskEnded(0, exit)
		s.End(stream.StepEnd{StepTaskExit: exit}, "")
	}()
	return s, nil
}

// startWithFiles starts a process with a terminal, or with pipes, and returns this end of them.
func (c *runcContainer) startWithFiles(p *libcontainer.Process, terminal *container.Terminal) ([]*os.File, error) {
	if terminal == nil {
		var ours, theirs []*os.File
		defer func() { session.CloseAll(theirs) }()
		for i := range 3 {
			r, w, err := os.Pipe()
			if err != nil {
				session.CloseAll(ours)
				return nil, err
			}
			if i == 0 {
				r, w = w, r
			}
			ours, theirs = append(ours, r), append(theirs, w)
		}
		p.Stdin, p.Stdout, p.Stderr = theirs[0], theirs[1], theirs[2]
		if err := c.inner.Start(p); err != nil {
			session.CloseAll(ours)
			return nil, err
		}
		return ours, nil
	}
	ours, theirs, err := session.SocketForFiles()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	p.ConsoleSocket, p.ConsoleWidth, p.ConsoleHeight = theirs, terminal.Columns, terminal.Rows
	if err := c.inner.Start(p); err != nil {
		return nil, err
	}
	_ = theirs.Close() // so that the end of the process is the end of what comes
	_, files, err := session.ReceiveFiles(ours)
	if err != nil || len(files) != 1 {
		session.CloseAll(files)
		return nil, errors.Join(err, errors.New("it did not send its terminal"), p.Signal(unix.SIGKILL))
	}
	return files, nil
}

// exitOf returns how a process has ended.
func exitOf(state *os.ProcessState) stream.StepTaskExit {
	if state == nil {
		return stream.StepTaskExit{Signal: int(unix.SIGKILL)}
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return stream.StepTaskExit{Signal: int(status.Signal())}
	}
	return stream.StepTaskExit{Code: status.ExitStatus()}
}
