package shim

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// task is one container of a worker.
type task struct {
	taskState
	dir        string // of its bundle
	logDir     string
	name       string // of its container
	user       container.User
	container  *runcContainer
	logs       *logs
	startError error // its command could not be started
	finished   finishedScan
}

// tasksOf lists the containers that settings ask for, one for each task.
func tasksOf(dir string, s container.Settings) []*task {
	list := make([]*task, len(s.Tasks))
	for i, t := range s.Tasks {
		list[i] = &task{
			taskState: taskState{Task: t, state: container.Created}, dir: dir, logDir: container.LogDir(dir),
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
	scanner *outputScanner, limit *throttle, ipc string, restore *container.Restore, session *session,
) error {
	var err error
	if t.logs, err = openLogs(t.logDir, t.Log, t.user, scanner.task(t.Name), limit); err != nil {
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
	g, err := openGuards(t.Guards, t.user)
	if err != nil {
		return err
	}
	defer g.close()
	values, err := readSecrets(t.Secrets, t.user)
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
		session.signal = t.container.signalRank
	}
	if err := g.verify(t.container.pid); err != nil {
		return err
	}
	return placeSecrets(t.container.pid, t.Secrets, values, t.user)
}

func (t *task) start() {
	t.state = container.Running
	if err := t.container.start(); err != nil {
		t.startError = err
		_ = t.container.kill() // its end follows, and with it that of the worker
	}
}

const (
	defaultKillTimeout = 30_000          // milliseconds, if the settings have none
	outputPatience     = 2 * time.Second // for the rest of the output after the end of a container
)

// stopForOthers asks the task to stop because other tasks have decided how the worker ends. If it
// does not stop in time, it is sent to the channel overdue, and killed.
func (t *task) stopForOthers(late chan<- *task) {
	t.stoppedByOthers = true
	_ = t.container.signal(t.killSignal(), "") // a task that cannot be signalled is killed
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
	if t.state == container.Exited {
		return
	}
	t.state, t.exit = container.Exited, t.container.exit()
	t.executed = t.container.executed
	t.exit.Own = !t.asked || t.container.endedUnasked
	if t.startError != nil && t.exit.Code == 0 {
		t.exit.Signal = sigKill
	}
	t.logs.closeContainerEnds() // of one that was never restored they are still open
	t.logs.awaitRest(outputPatience)
	own, _ := t.container.kills.sayings()
	t.tell(own)
	t.logs.endNotes()
	t.exit.LogLost = t.logs.lost.Load()
	if s := t.container.io; s != nil {
		go s.end(stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: t.exit.Code, Signal: t.exit.Signal,
			OOM: t.exit.OOM}}, own)
	}
	_ = bounded(tidyPatience, func() error { // the daemon sweeps what is left when the worker is removed
		t.readFinished() // before the file goes
		return errors.Join(t.container.destroy(), container.EndProgress(t.dir))
	})
}

// tellKills writes into the output which processes the kernel has killed for memory since the last
// call. Kills of the task's own processes go into the output of the task, and the others into that
// of the processes beside it.
func (t *task) tellKills(o *ioServer) {
	own, beside := t.container.kills.sayings()
	t.tell(own)
	if s := t.container.io; s != nil {
		go s.note(own) // it waits for a reader that is slow
	}
	for _, s := range o.others() {
		go s.note(beside)
	}
}

// notePatience bounds the wait until a note is written to a file of the output.
const notePatience = 2 * time.Second

// tell writes a note into the output's file, unless it is empty or the output goes elsewhere.
func (t *task) tell(text string) {
	if text != "" && t.container.io == nil {
		_ = bounded(notePatience, func() error { t.logs.note(text); return nil }) // it is in the exit record too
	}
}

// endUnstarted ends a container whose command has not started, or that is being killed.
func (t *task) endUnstarted() error {
	begun := t.state == container.Running
	err := t.container.kill()
	<-t.container.ended
	t.recordEnd()
	if !begun {
		t.state = container.Created // so that the record says: it never ran
	}
	return errors.Join(err)
}
