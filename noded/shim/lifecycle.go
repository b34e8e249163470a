package shim

import "github.com/rota-hpc/rota/noded/container"

// taskState is what is known of one task of a worker.
type taskState struct {
	container.Task
	state           container.State // Created, Running or Exited
	stoppedByOthers bool            // other tasks ended the worker: how this one ends is no result
	exit            container.Exit
}

func (m *taskState) succeeded() bool { return m.exit.Code == 0 && m.exit.Signal == 0 }

// isMain reports whether the task is a main task.
func (m *taskState) isMain() bool { return m.Hook == "" }

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
	success  string // which main tasks decide the worker's success: all, leader or any
	stopping bool   // it was asked to stop: only poststop tasks may start
	ended    bool   // it was killed or its lease has ended: no task may start
}

// nextActions decides what is to be done from the states of all tasks. It is a pure function, so
// that it may be called at any time and again.
//
// The lifecycle of the tasks: prestart tasks run one after the other, with their sidecars beside
// them. Then all main tasks and the poststart tasks run together. When the main tasks have ended,
// the sidecars are stopped. Last, the poststop tasks run one after the other.
func nextActions(list []taskState, o workerPhase) actions {
	var m actions
	if !o.stopping && !o.ended && !hookFailed(list, "prestart") {
		m.start = tasksToStart(list)
	}
	if len(m.start) == 0 && !hookRuns(list, "prestart") {
		m.stop = tasksToStop(list, o)
	}
	if len(m.start) > 0 || sidecarsNeeded(list) {
		return m
	}
	if open := running(list, func(t *taskState) bool { return t.Sidecar }); len(open) > 0 {
		m.stop = append(m.stop, notYetStopped(list, open)...)
		return m
	}
	return cleanUpActions(list, o, m)
}

// cleanUpActions returns what is to be done once only poststop tasks are left.
func cleanUpActions(list []taskState, o workerPhase, m actions) actions {
	if len(running(list, func(*taskState) bool { return true })) > 0 {
		return m
	}
	if !o.ended {
		for i := range list {
			if list[i].Hook == "poststop" && list[i].state == container.Created {
				m.start = []int{i}
				return m
			}
		}
	}
	m.done = true
	return m
}

// tasksToStart lists the tasks that are due to start.
func tasksToStart(list []taskState) []int {
	var begin []int
	waiting := func(which func(*taskState) bool) {
		for i := range list {
			if list[i].state == container.Created && which(&list[i]) {
				begin = append(begin, i)
			}
		}
	}
	waiting(func(t *taskState) bool { return t.Hook == "prestart" && t.Sidecar })
	for i := range list {
		if t := &list[i]; t.endsByItself("prestart") && t.state != container.Exited {
			if t.state == container.Created {
				begin = append(begin, i)
			}
			return begin
		}
	}
	waiting((*taskState).isMain)
	waiting(func(t *taskState) bool { return t.Hook == "poststart" })
	return begin
}

// hookFailed reports whether a task of a hook has failed.
func hookFailed(list []taskState, hook string) bool {
	for i := range list {
		if t := &list[i]; t.endsByItself(hook) && t.state == container.Exited && !t.stoppedByOthers && !t.succeeded() {
			return true
		}
	}
	return false
}

// hookRuns reports whether a task of a hook runs that must end by itself.
func hookRuns(list []taskState, hook string) bool {
	return len(running(list, func(t *taskState) bool { return t.endsByItself(hook) })) > 0
}

// sidecarsNeeded reports whether a task runs that the sidecars are there for.
func sidecarsNeeded(list []taskState) bool {
	return len(running(list, func(t *taskState) bool { return !t.Sidecar && t.Hook != "poststop" })) > 0
}

func running(list []taskState, which func(*taskState) bool) []int {
	var found []int
	for i := range list {
		if list[i].state == container.Running && which(&list[i]) {
			found = append(found, i)
		}
	}
	return found
}

func notYetStopped(list []taskState, among []int) []int {
	var found []int
	for _, i := range among {
		if !list[i].stoppedByOthers {
			found = append(found, i)
		}
	}
	return found
}

// tasksToStop lists the main tasks, and the poststart tasks beside them, that are to be stopped
// because other tasks have decided how the worker ends.
func tasksToStop(list []taskState, o workerPhase) []int {
	if !outcomeDecided(list, o.success) {
		return nil
	}
	return notYetStopped(list, running(list, func(t *taskState) bool {
		return t.isMain() ||
			t.endsByItself("poststart")
	}))
}

// outcomeDecided reports whether the tasks that have ended decide how the worker ends.
func outcomeDecided(list []taskState, success string) bool {
	if hookFailed(list, "poststart") {
		return true
	}
	leader := leaderIndex(list)
	for i := range list {
		t := &list[i]
		if !t.isMain() || t.state != container.Exited || t.stoppedByOthers {
			continue
		}
		switch success {
		case "leader":
			if i == leader {
				return true
			}
		case "any":
			if t.succeeded() {
				return true
			}
		default:
			if !t.succeeded() {
				return true
			}
		}
	}
	return false
}

// leaderIndex returns the first main task that is marked as the leader, or the first one.
func leaderIndex(list []taskState) int {
	first := -1
	for i := range list {
		if !list[i].isMain() {
			continue
		}
		if list[i].Leader {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

// workerExit returns how the worker ended: the worst exit of the tasks that decide its success, and
// of the other tasks that must succeed. The second result names the deciding task if it is not a
// main task.
func workerExit(list []taskState, success string) (container.Exit, string) {
	worst := container.Exit{}
	var deciding *taskState
	take := func(which func(int, *taskState) bool) {
		for i := range list {
			t := &list[i]
			if t.state == container.Exited && !t.stoppedByOthers && which(i, t) && severity(t.exit) > severity(worst) {
				worst, deciding = t.exit, t
			}
		}
	}
	take(func(_ int, t *taskState) bool { return t.endsByItself("prestart") })
	leader, well := leaderIndex(list), false
	for i := range list {
		well = well || list[i].isMain() && list[i].state == container.Exited && list[i].succeeded()
	}
	if !(success == "any" && well) {
		take(func(i int, t *taskState) bool { return t.isMain() && (success != "leader" || i == leader) })
	}
	take(func(_ int, t *taskState) bool { return t.endsByItself("poststart") })
	if severity(worst) == 0 {
		take(func(_ int, t *taskState) bool { return t.Hook == "poststop" })
	}
	if severity(worst) == 0 && len(list) > 1 && mainTaskNeverRan(list) {
		worst.Signal = sigKill
	}
	if deciding == nil || deciding.isMain() {
		return worst, ""
	}
	return worst, deciding.Hook + " task " + deciding.Name
}

// mainTaskNeverRan reports whether a main task never ran. Then the worker has failed, even if all
// other tasks succeeded.
func mainTaskNeverRan(list []taskState) bool {
	for i := range list {
		if list[i].isMain() && list[i].state != container.Exited {
			return true
		}
	}
	return false
}

const sigKill = 9

func severity(e container.Exit) int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}
