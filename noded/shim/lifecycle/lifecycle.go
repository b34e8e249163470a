// Package lifecycle decides which tasks of a worker start and stop, and how the worker ends. It is a
// pure function of the states of the tasks; the shim carries out the actions.
package lifecycle

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// TaskState is what is known of one task of a worker.
type TaskState struct {
	container.Task
	State           container.State // Created, Running or Exited
	StoppedByOthers bool            // other tasks ended the worker: how this one ends is no result
	Asked           bool            // the worker was asked to stop while it had not ended
	Executed        bool            // of one that has ended: its program was executed
	Exit            container.Exit
}

func (m *TaskState) succeeded() bool { return m.Exit.Code == 0 && m.Exit.Signal == 0 }

// IsMain reports whether the task is a main task.
func (m *TaskState) IsMain() bool { return m.Hook == "" }

// StopSignal returns the signal that asks the task to stop.
func (m *TaskState) StopSignal() unix.Signal {
	return cmp.Or(unix.Signal(m.KillSignal), unix.SIGTERM)
}

// endsByItself reports whether the task belongs to the hook and is no sidecar. Such a task ends by
// itself, and must succeed.
func (m *TaskState) endsByItself(hook string) bool { return m.Hook == hook && !m.Sidecar }

// Actions are what is to be done next about the tasks of a worker.
type Actions struct {
	Start []int // in this order
	Stop  []int // because other tasks have decided how the worker ends
	Done  bool  // no task runs and none is to be started
}

// Phase says which tasks may still start.
type Phase struct {
	Success      string // which main tasks decide the worker's success: all, leader or any
	AskedBy      int    // the signal by which it was asked to stop; 0: it was not, or was killed at once
	Stopping     bool   // it was asked to stop: only poststop tasks may start
	NoMoreStarts bool   // it was killed or its lease has ended: no task may start
}

// Next decides what is to be done from the states of all tasks. It is a pure function, so
// that it may be called at any time and again.
//
// The lifecycle of the tasks: prestart tasks run one after the other, with their sidecars beside
// them. Then all main tasks and the poststart tasks run together. When the main tasks have ended,
// the sidecars are stopped. Last, the poststop tasks run one after the other.
func Next(list []*TaskState, o Phase) Actions {
	var m Actions
	if !o.Stopping && !o.NoMoreStarts && !hookFailed(list, "prestart") {
		m.Start = tasksToStart(list)
	}
	preparing := anyRuns(list, func(t *TaskState) bool { return t.endsByItself("prestart") })
	if len(m.Start) == 0 && !preparing && outcomeDecided(list, o.Success) {
		m.Stop = indices(list, container.Running, func(t *TaskState) bool {
			return !t.StoppedByOthers && (t.IsMain() || t.endsByItself("poststart"))
		})
	}
	needsSidecars := anyRuns(list, func(t *TaskState) bool { return !t.Sidecar && t.Hook != "poststop" })
	if len(m.Start) > 0 || needsSidecars {
		return m
	}
	if anyRuns(list, func(t *TaskState) bool { return t.Sidecar }) {
		sidecars := indices(list, container.Running, func(t *TaskState) bool { return t.Sidecar && !t.StoppedByOthers })
		m.Stop = append(m.Stop, sidecars...)
		return m
	}
	if anyRuns(list, func(*TaskState) bool { return true }) {
		return m
	}
	last := indices(list, container.Created, func(t *TaskState) bool { return t.Hook == "poststop" })
	if !o.NoMoreStarts && len(last) > 0 {
		m.Start = last[:1]
		return m
	}
	m.Done = true
	return m
}

// indices lists the tasks in a state that match.
func indices(list []*TaskState, state container.State, match func(*TaskState) bool) []int {
	var found []int
	for i, t := range list {
		if t.State == state && match(t) {
			found = append(found, i)
		}
	}
	return found
}

// anyRuns reports whether a task runs that matches.
func anyRuns(list []*TaskState, match func(*TaskState) bool) bool {
	return len(indices(list, container.Running, match)) > 0
}

// tasksToStart lists the tasks that are due to start.
func tasksToStart(list []*TaskState) []int {
	due := indices(list, container.Created, func(t *TaskState) bool { return t.Hook == "prestart" && t.Sidecar })
	next := slices.IndexFunc(list, func(t *TaskState) bool {
		return t.endsByItself("prestart") && t.State != container.Exited
	})
	if next >= 0 {
		if list[next].State == container.Created {
			due = append(due, next)
		}
		return due
	}
	due = append(due, indices(list, container.Created, (*TaskState).IsMain)...)
	return append(due, indices(list, container.Created, func(t *TaskState) bool { return t.Hook == "poststart" })...)
}

// hookFailed reports whether a task of a hook has failed.
func hookFailed(list []*TaskState, hook string) bool {
	return slices.ContainsFunc(list, func(t *TaskState) bool {
		return t.endsByItself(hook) && t.State == container.Exited && !t.StoppedByOthers && !t.succeeded()
	})
}

// outcomeDecided reports whether the tasks that have ended decide how the worker ends.
func outcomeDecided(list []*TaskState, success string) bool {
	leader := LeaderOf(list)
	return hookFailed(list, "poststart") || slices.ContainsFunc(list, func(t *TaskState) bool {
		if !t.IsMain() || t.State != container.Exited || t.StoppedByOthers {
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

// LeaderOf returns the first main task that is marked as the leader, or the first main task; nil if
// there is none.
func LeaderOf(list []*TaskState) *TaskState {
	var first *TaskState
	for _, t := range list {
		if !t.IsMain() {
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

// ExitOf returns how the worker ended: the worst exit of the tasks that decide its success, and
// of the other tasks that must succeed. It is the worker's own if those tasks ended before they were
// asked to. The second result names the deciding task if it is not a main task.
func ExitOf(list []*TaskState, o Phase) (container.Exit, string) {
	worst := container.Exit{Own: true}
	var deciding *TaskState
	consider := func(match func(*TaskState) bool) {
		for _, i := range indices(list, container.Exited, match) {
			t := list[i]
			switch {
			case t.StoppedByOthers:
			case severity(t.Exit) > severity(worst):
				worst, deciding = t.Exit, t
			case severity(t.Exit) == severity(worst) && t.IsMain():
				worst.Own = worst.Own && t.Exit.Own
			}
		}
	}
	consider(func(t *TaskState) bool { return t.endsByItself("prestart") })
	leader := LeaderOf(list)
	enough := func(t *TaskState) bool { return t.IsMain() && t.State == container.Exited && t.succeeded() }
	if o.Success == "any" && slices.ContainsFunc(list, enough) {
		worst.Own = worst.Own && slices.ContainsFunc(list, func(t *TaskState) bool { return enough(t) && t.Exit.Own })
	} else {
		consider(func(t *TaskState) bool { return t.IsMain() && (o.Success != "leader" || t == leader) })
	}
	consider(func(t *TaskState) bool { return t.endsByItself("poststart") })
	if severity(worst) == 0 {
		consider(func(t *TaskState) bool { return t.Hook == "poststop" })
	}
	// A worker whose main task never ran has failed, even if all other tasks succeeded.
	neverRan := func(t *TaskState) bool { return t.IsMain() && t.State != container.Exited }
	if severity(worst) == 0 && slices.ContainsFunc(list, neverRan) {
		worst.Signal, worst.Own = cmp.Or(o.AskedBy, int(unix.SIGKILL)), false
	}
	if deciding == nil || deciding.IsMain() {
		return worst, ""
	}
	return worst, deciding.Hook + " task " + deciding.Name
}

func severity(e container.Exit) int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}
