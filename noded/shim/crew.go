package shim

import "github.com/rota-hpc/rota/noded/container"

// member is what is known of one task of a worker.
type member struct {
	container.Task
	state     container.State // Created, Running or Exited
	dismissed bool            // the others' ends made it go: how it ended is no result
	exit      container.Exit
}

func (m *member) ok() bool { return m.exit.Code == 0 && m.exit.Signal == 0 }

// main reports whether the task is one that the worker is for.
func (m *member) main() bool { return m.Hook == "" }

// short reports whether the task is beside the main ones but not for as long as they run: it must end well by itself.
func (m *member) short(hook string) bool { return m.Hook == hook && !m.Sidecar }

// moves are what is to be done next about the tasks of a worker.
type moves struct {
	start []int // in this order
	stop  []int // told to go, because the others make them useless
	done  bool  // nothing runs and nothing is to be started
}

// order is how far a worker as a whole may go.
type order struct {
	success string // whose success is the worker's: all, leader or any
	stop    bool   // it was asked to stop: nothing is begun but what cleans up
	over    bool   // it was killed or its lease has ended: nothing is begun at all
}

// next decides what is to be done from how far every task has come. It is a pure function, so that it does not matter when and how often
// it is asked.
//
// Tasks before the start run one after the other to their ends, with their sidecars beside them; then all main tasks and those that follow
// their start run together; when the main tasks have ended the sidecars are stopped; and last, one after the other, what cleans up runs.
func next(list []member, o order) moves {
	var m moves
	if !o.stop && !o.over && !failed(list, "prestart") {
		m.start = toBegin(list)
	}
	if len(m.start) == 0 && !awaited(list, "prestart") {
		m.stop = superfluous(list, o)
	}
	if len(m.start) > 0 || working(list) {
		return m
	}
	if open := running(list, func(t *member) bool { return t.Sidecar }); len(open) > 0 {
		m.stop = append(m.stop, undismissed(list, open)...)
		return m
	}
	return last(list, o, m)
}

// last is what is to be done once nothing but cleaning up is left.
func last(list []member, o order, m moves) moves {
	if len(running(list, func(*member) bool { return true })) > 0 {
		return m
	}
	if !o.over {
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
func toBegin(list []member) []int {
	var begin []int
	waiting := func(which func(*member) bool) {
		for i := range list {
			if list[i].state == container.Created && which(&list[i]) {
				begin = append(begin, i)
			}
		}
	}
	waiting(func(t *member) bool { return t.Hook == "prestart" && t.Sidecar })
	for i := range list {
		if t := &list[i]; t.short("prestart") && t.state != container.Exited {
			if t.state == container.Created {
				begin = append(begin, i)
			}
			return begin
		}
	}
	waiting((*member).main)
	waiting(func(t *member) bool { return t.Hook == "poststart" })
	return begin
}

// failed reports whether a task of a hook has ended badly.
func failed(list []member, hook string) bool {
	for i := range list {
		if t := &list[i]; t.short(hook) && t.state == container.Exited && !t.dismissed && !t.ok() {
			return true
		}
	}
	return false
}

// awaited reports whether a task of a hook runs whose end is waited for.
func awaited(list []member, hook string) bool {
	return len(running(list, func(t *member) bool { return t.short(hook) })) > 0
}

// working reports whether something runs that the sidecars are there for.
func working(list []member) bool {
	return len(running(list, func(t *member) bool { return !t.Sidecar && t.Hook != "poststop" })) > 0
}

func running(list []member, which func(*member) bool) []int {
	var found []int
	for i := range list {
		if list[i].state == container.Running && which(&list[i]) {
			found = append(found, i)
		}
	}
	return found
}

func undismissed(list []member, among []int) []int {
	var found []int
	for _, i := range among {
		if !list[i].dismissed {
			found = append(found, i)
		}
	}
	return found
}

// superfluous lists the main tasks that have to go because others have decided how the worker ends, and with them what follows their start.
func superfluous(list []member, o order) []int {
	if !decided(list, o.success) {
		return nil
	}
	return undismissed(list, running(list, func(t *member) bool { return t.main() || t.short("poststart") }))
}

// decided reports whether the ends of some main tasks make the others useless.
func decided(list []member, success string) bool {
	if failed(list, "poststart") {
		return true
	}
	leader := leaderOf(list)
	for i := range list {
		t := &list[i]
		if !t.main() || t.state != container.Exited || t.dismissed {
			continue
		}
		switch success {
		case "leader":
			if i == leader {
				return true
			}
		case "any":
			if t.ok() {
				return true
			}
		default:
			if !t.ok() {
				return true
			}
		}
	}
	return false
}

// leaderOf is the first main task that is marked as the leader, or the first one.
func leaderOf(list []member) int {
	first := -1
	for i := range list {
		if !list[i].main() {
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
func sum(list []member, success string) (container.Exit, string) {
	worst := container.Exit{}
	var who *member
	take := func(which func(int, *member) bool) {
		for i := range list {
			t := &list[i]
			if t.state == container.Exited && !t.dismissed && which(i, t) && weight(t.exit) > weight(worst) {
				worst, who = t.exit, t
			}
		}
	}
	take(func(_ int, t *member) bool { return t.short("prestart") })
	leader, well := leaderOf(list), false
	for i := range list {
		well = well || list[i].main() && list[i].state == container.Exited && list[i].ok()
	}
	if !(success == "any" && well) {
		take(func(i int, t *member) bool { return t.main() && (success != "leader" || i == leader) })
	}
	take(func(_ int, t *member) bool { return t.short("poststart") })
	if weight(worst) == 0 {
		take(func(_ int, t *member) bool { return t.Hook == "poststop" })
	}
	if weight(worst) == 0 && len(list) > 1 && unbegun(list) {
		worst.Signal = sigKill
	}
	if who == nil || who.main() {
		return worst, ""
	}
	return worst, who.Hook + " task " + who.Name
}

// unbegun reports whether a main task never ran: then the worker has not done what it is for, however well the rest went.
func unbegun(list []member) bool {
	for i := range list {
		if list[i].main() && list[i].state != container.Exited {
			return true
		}
	}
	return false
}

const sigKill = 9

func weight(e container.Exit) int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}
