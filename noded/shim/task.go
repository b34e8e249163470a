package shim

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
	"github.com/rota-hpc/rota/noded/shim/output"
	"github.com/rota-hpc/rota/noded/shim/session"
	"github.com/rota-hpc/rota/noded/shim/userfiles"
)

// task is one container of a worker.
type task struct {
	lifecycle.TaskState
	dir        string // of its bundle
	logDir     string
	name       string // of its container
	user       container.User
	container  *runcContainer
	logs       *output.Logs
	startError error // its command could not be started
	finished   finishedScan
}

// tasksOf lists the containers that settings ask for, one for each task.
func tasksOf(dir string, s container.Settings) []*task {
	list := make([]*task, len(s.Tasks))
	for i, t := range s.Tasks {
		list[i] = &task{
			TaskState: lifecycle.TaskState{Task: t, State: container.Created}, dir: dir, logDir: container.LogDir(dir),
			name: s.ID.String(), user: s.User,
		}
		if s.Several() {
			list[i].dir = container.TaskDir(dir, i)
			list[i].logDir = filepath.Join(list[i].logDir, t.Name)
			list[i].name += "-" + t.Name
		}
	}
	return list
}

// create creates the container, up to the command, which waits for its start, and checks that it
// shows only what its user may see.
func (t *task) create(
	scanner *output.Scanner, limit *output.Throttle, ipc string, restore *container.Restore, session *session.Session,
) error {
	var err error
	if t.logs, err = output.Open(t.logDir, t.Log, t.user, scanner.Task(t.Name), limit); err != nil {
		return err
	}
	if restore != nil {
		if _, err := container.ReadSaved(restore.Dir); err != nil {
			return err
		}
		if err := container.MountProgress(t.dir, t.user); err != nil {
			return err
		}
		t.container, err = newRestored(t.dir, t.name)
		return err
	}
	g, err := userfiles.OpenGuards(t.Guards, t.user)
	if err != nil {
		return err
	}
	defer g.Close()
	values, err := userfiles.ReadSecrets(t.Secrets, t.user)
	if err != nil {
		return err
	}
	if err := container.MountProgress(t.dir, t.user); err != nil {
		return err
	}
	if t.container, err = newContainer(t.dir, t.name, t.logs, ipc, session); err != nil {
		return err
	}
	if session != nil {
		session.SignalBy(t.container.signalRank)
	}
	if err := g.Verify(t.container.pid); err != nil {
		return err
	}
	return userfiles.PlaceSecrets(t.container.pid, t.Secrets, values, t.user)
}

func (t *task) start() {
	t.State = container.Running
	if err := t.container.start(); err != nil {
		t.startError = err
		_ = t.container.kill() // its end follows, and with it that of the worker
	}
}

const defaultKillTimeout = 30_000 // milliseconds, if the settings have none

// stopForOthers asks the task to stop because other tasks have decided how the worker ends. If it
// does not stop in time, it is sent to the channel overdue, and killed.
func (t *task) stopForOthers(late chan<- *task) {
	t.StoppedByOthers = true
	_ = t.container.signal(t.StopSignal(), "") // a task that cannot be signalled is killed
	patience := time.Duration(cmp.Or(t.KillTimeout, defaultKillTimeout)) * time.Millisecond
	time.AfterFunc(patience, func() {
		select {
		case <-t.container.ended:
		default:
			late <- t // the channel has room for every task once
		}
	})
}

// recordEnd stores how the task ended, and removes its container.
func (t *task) recordEnd() {
	if t.State == container.Exited {
		return
	}
	t.State, t.Exit = container.Exited, t.container.exit()
	t.Executed = t.container.executed
	t.Exit.Own = !t.Asked || t.container.endedUnasked
	if t.startError != nil && t.Exit.Code == 0 {
		t.Exit.Signal = int(unix.SIGKILL)
	}
	t.logs.CloseContainerEnds() // of one that was never restored they are still open
	t.logs.AwaitRest(session.OutputPatience)
	own, _ := t.container.kills.Sayings()
	t.tell(own)
	_ = bounded(notePatience, func() error { t.logs.EndNotes(); return nil }) // it is closed with this process
	t.Exit.SetLost(t.logs.Lost())
	if s := t.container.io; s != nil {
		go s.End(stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: t.Exit.Code, Signal: t.Exit.Signal,
			OOM: t.Exit.OOM}}, own)
	}
	_ = bounded(tidyPatience, func() error { // the daemon sweeps what is left when the worker is removed
		t.readFinished() // before the file goes
		return errors.Join(t.container.destroy(), container.EndProgress(t.dir))
	})
}

// tellKills writes into the output which processes the kernel has killed for memory since the last
// call. Kills of the task's own processes go into the output of the task, and the others into that
// of the processes beside it.
func (t *task) tellKills(o *session.Server) {
	own, beside := t.container.kills.Sayings()
	t.tell(own)
	if s := t.container.io; s != nil {
		go s.Note(own) // it waits for a reader that is slow
	}
	for _, s := range o.Others() {
		go s.Note(beside)
	}
}

// notePatience bounds the wait until a note is written to a file of the output.
const notePatience = 2 * time.Second

// tell writes a note into the output's file, unless it is empty or the output goes elsewhere.
func (t *task) tell(text string) {
	if text != "" && t.container.io == nil {
		_ = bounded(notePatience, func() error { t.logs.Note(text); return nil }) // it is in the exit record too
	}
}

// endUnstarted ends a container whose command has not started, or that is being killed.
func (t *task) endUnstarted() error {
	begun := t.State == container.Running
	err := t.container.kill()
	<-t.container.ended
	t.recordEnd()
	if !begun {
		t.State = container.Created // so that the record says: it never ran
	}
	return errors.Join(err)
}
