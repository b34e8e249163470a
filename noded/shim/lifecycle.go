package shim

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// taskState is what is known of one task of a worker.
type taskState struct {
	container.Task
	state           container.State // Created, Running or Exited
	stoppedByOthers bool            // other tasks ended the worker: how this one ends is no result
	asked           bool            // the worker was asked to stop while it had not ended
	executed        bool            // of one that has ended: its program was executed
	exit            container.Exit
}

func (m *taskState) succeeded() bool { return m.exit.Code == 0 && m.exit.Signal == 0 }

// isMain reports whether the task is a main task.
func (m *taskState) isMain() bool { return m.Hook == "" }

// killSignal returns the signal that asks the task to stop.
func (m *taskState) killSignal() unix.Signal {
	return cmp.Or(unix.Signal(m.KillSignal), unix.SIGTERM)
}

// endsByItself reports whether the task belongs to the hook and is no sidecar. Such a task ends by
// itself, and must succeed.
func (m *taskState) endsByItself(hook string) bool { return m.Hook == hook && !m.Sidecar }

// actions are what is to be done next about the tasks of a worker.
type actions struct {
	start []int // in this order
	stop  []int // because other tasks have decided how the worker ends
	done  bool  // no task runs and none is to be started
}

// workerPhase says which tasks may still start.
type workerPhase struct {
	success      string // which main tasks decide the worker's success: all, leader or any
	askedBy      int    // the signal by which it was asked to stop; 0: it was not, or was killed at once
	stopping     bool   // it was asked to stop: only poststop tasks may start
	noMoreStarts bool   // it was killed or its lease has ended: no task may start
}

// nextActions decides what is to be done from the states of all tasks. It is a pure function, so
// that it may be called at any time and again.
//
// The lifecycle of the tasks: prestart tasks run one after the other, with their sidecars beside
// them. Then all main tasks and the poststart tasks run together. When the main tasks have ended,
// the sidecars are stopped. Last, the poststop tasks run one after the other.
func nextActions(list []*taskState, o workerPhase) actions {
	var m actions
	if !o.stopping && !o.noMoreStarts && !hookFailed(list, "prestart") {
		m.start = tasksToStart(list)
	}
	preparing := anyRuns(list, func(t *taskState) bool { return t.endsByItself("prestart") })
	if len(m.start) == 0 && !preparing && outcomeDecided(list, o.success) {
		m.stop = indices(list, container.Running, func(t *taskState) bool {
			return !t.stoppedByOthers && (t.isMain() || t.endsByItself("poststart"))
		})
	}
	needsSidecars := anyRuns(list, func(t *taskState) bool { return !t.Sidecar && t.Hook != "poststop" })
	if len(m.start) > 0 || needsSidecars {
		return m
	}
	if anyRuns(list, func(t *taskState) bool { return t.Sidecar }) {
		sidecars := indices(list, container.Running, func(t *taskState) bool { return t.Sidecar && !t.stoppedByOthers })
		m.stop = append(m.stop, sidecars...)
		return m
	}
	if anyRuns(list, func(*taskState) bool { return true }) {
		return m
	}
	last := indices(list, container.Created, func(t *taskState) bool { return t.Hook == "poststop" })
	if !o.noMoreStarts && len(last) > 0 {
		m.start = last[:1]
		return m
	}
	m.done = true
	return m
}

// indices lists the tasks in a state that match.
func indices(list []*taskState, state container.State, match func(*taskState) bool) []int {
	var found []int
	for i, t := range list {
		if t.state == state && match(t) {
			found = append(found, i)
		}
	}
	return found
}

// anyRuns reports whether a task runs that matches.
func anyRuns(list []*taskState, match func(*taskState) bool) bool {
	return len(indices(list, container.Running, match)) > 0
}

// tasksToStart lists the tasks that are due to start.
func tasksToStart(list []*taskState) []int {
	due := indices(list, container.Created, func(t *taskState) bool { return t.Hook == "prestart" && t.Sidecar })
	next := slices.IndexFunc(list, func(t *taskState) bool {
		return t.endsByItself("prestart") && t.state != container.Exited
	})
	if next >= 0 {
		if list[next].state == container.Created {
			due = append(due, next)
		}
		return due
	}
	due = append(due, indices(list, container.Created, (*taskState).isMain)...)
	return append(due, indices(list, container.Created, func(t *taskState) bool { return t.Hook == "poststart" })...)
}

// hookFailed reports whether a task of a hook has failed.
func hookFailed(list []*taskState, hook string) bool {
	return slices.ContainsFunc(list, func(t *taskState) bool {
		return t.endsByItself(hook) && t.state == container.Exited && !t.stoppedByOthers && !t.succeeded()
	})
}

// outcomeDecided reports whether the tasks that have ended decide how the worker ends.
func outcomeDecided(list []*taskState, success string) bool {
	leader := leaderOf(list)
	return hookFailed(list, "poststart") || slices.ContainsFunc(list, func(t *taskState) bool {
		if !t.isMain() || t.state != container.Exited || t.stoppedByOthers {
			return false
		}
		switch success {
		case "leader":
			return t == leader
		case "any":
			return t.succeeded()
		}
		return !t.succeeded()
	})
}

// leaderOf returns the first main task that is marked as the leader, or the first main task; nil if
// there is none.
func leaderOf(list []*taskState) *taskState {
	var first *taskState
	for _, t := range list {
		if !t.isMain() {
			continue
		}
		if t.Leader {
			return t
		}
		if first == nil {
			first = t
		}
	}
	return first
}

// workerExit returns how the worker ended: the worst exit of the tasks that decide its success, and
// of the other tasks that must succeed. It is the worker's own if those tasks ended before they were
// asked to. The second result names the deciding task if it is not a main task.
func workerExit(list []*taskState, o workerPhase) (container.Exit, string) {
	worst := container.Exit{Own: true}
	var deciding *taskState
	consider := func(match func(*taskState) bool) {
		for _, i := range indices(list, container.Exited, match) {
			t := list[i]
			switch {
			case t.stoppedByOthers:
			case severity(t.exit) > severity(worst):
				worst, deciding = t.exit, t
			case severity(t.exit) == severity(worst) && t.isMain():
				worst.Own = worst.Own && t.exit.Own
			}
		}
	}
	consider(func(t *taskState) bool { return t.endsByItself("prestart") })
	leader := leaderOf(list)
	enough := func(t *taskState) bool { return t.isMain() && t.state == container.Exited && t.succeeded() }
	if o.success == "any" && slices.ContainsFunc(list, enough) {
		worst.Own = worst.Own && slices.ContainsFunc(list, func(t *taskState) bool { return enough(t) && t.exit.Own })
	} else {
		consider(func(t *taskState) bool { return t.isMain() && (o.success != "leader" || t == leader) })
	}
	consider(func(t *taskState) bool { return t.endsByItself("poststart") })
	if severity(worst) == 0 {
		consider(func(t *taskState) bool { return t.Hook == "poststop" })
	}
	// A worker whose main task never ran has failed, even if all other tasks succeeded.
	neverRan := func(t *taskState) bool { return t.isMain() && t.state != container.Exited }
	if severity(worst) == 0 && slices.ContainsFunc(list, neverRan) {
		worst.Signal, worst.Own = cmp.Or(o.askedBy, sigKill), false
	}
	if deciding == nil || deciding.isMain() {
		return worst, ""
	}
	return worst, deciding.Hook + " task " + deciding.Name
}

const sigKill = 9

func severity(e container.Exit) int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}
