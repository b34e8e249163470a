package shim

import "github.com/rota-hpc/rota/noded/container"

// member is what is known of one task of a worker.
type taskState struct {
	container.Task
	state           container.State // Created, Running or Exited
	stoppedByOthers bool            // the others' ends made it go: how it ended is no result
	exit            container.Exit
}

func (m *taskState) succeeded() bool { return m.exit.Code == 0 && m.exit.Signal == 0 }

// main reports whether the task is one that the worker is for.
func (m *taskState) isMain() bool { return m.Hook == "" }

// short reports whether the task is beside the main ones but not for as long as they run: it must end well by itself.
func (m *taskState) endsByItself(hook string) bool { return m.Hook == hook && !m.Sidecar }

// moves are what is to be done next about the tasks of a worker.
type actions struct {
	start []int // in this order
	stop  []int // told to go, because the others make them useless
	done  bool  // nothing runs and nothing is to be started
}

// order is how far a worker as a whole may go.
type workerPhase struct {
	success  string // whose success is the worker's: all, leader or any
	stopping bool   // it was asked to stop: nothing is begun but what cleans up
	ended    bool   // it was killed or its lease has ended: nothing is begun at all
}

// next decides what is to be done from how far every task has come. It is a pure function, so that it does not matter when and how often
// it is asked.
//
// Tasks before the start run one after the other to their ends, with their sidecars beside them; then all main tasks and those that follow
// their start run together; when the main tasks have ended the sidecars are stopped; and last, one after the other, what cleans up runs.
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

// last is what is to be done once nothing but cleaning up is left.
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

// toBegin lists the tasks whose turn it is.
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

// failed reports whether a task of a hook has ended badly.
func hookFailed(list []taskState, hook string) bool {
	for i := range list {
		if t := &list[i]; t.endsByItself(hook) && t.state == container.Exited && !t.stoppedByOthers && !t.succeeded() {
			return true
		}
	}
	return false
}

// awaited reports whether a task of a hook runs whose end is waited for.
func hookRuns(list []taskState, hook string) bool {
	return len(running(list, func(t *taskState) bool { return t.endsByItself(hook) })) > 0
}

// working reports whether something runs that the sidecars are there for.
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

// superfluous lists the main tasks that have to go because others have decided how the worker ends, and with them what follows their start.
func tasksToStop(list []taskState, o workerPhase) []int {
	if !outcomeDecided(list, o.success) {
		return nil
	}
	return notYetStopped(list, running(list, func(t *taskState) bool { return t.isMain() || t.endsByItself("poststart") }))
}

// decided reports whether the ends of some main tasks make the others useless.
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

// leaderOf is the first main task that is marked as the leader, or the first one.
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

// sum is how the worker ended, from how its tasks did: the worst of the tasks whose success is the worker's, or of what must end well beside
// them. The name of the task that decided comes with it when it was not a main one.
func workerExit(list []taskState, success string) (container.Exit, string) {
	worst := container.Exit{}
	var who *taskState
	take := func(which func(int, *taskState) bool) {
		for i := range list {
			t := &list[i]
			if t.state == container.Exited && !t.stoppedByOthers && which(i, t) && severity(t.exit) > severity(worst) {
				worst, who = t.exit, t
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
	if who == nil || who.isMain() {
		return worst, ""
	}
	return worst, who.Hook + " task " + who.Name
}

// unbegun reports whether a main task never ran: then the worker has not done what it is for, however well the rest went.
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
