package shim

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/jobsocket"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
	"github.com/rota-hpc/rota/noded/shim/session"
)

// listener is a process at the job socket, or rota-init at its channel, that keeps what it hears.
type listener struct {
	conn   net.Conn          // from the shim
	member *jobsocket.Member // nil: it is not at the job socket
	heard  chan string
}

func listen(t *testing.T) *listener {
	t.Helper()
	ours, theirs := pair(t)
	l := &listener{conn: ours, heard: make(chan string, 100)}
	go func() {
		defer close(l.heard)
		for lines := bufio.NewScanner(theirs); lines.Scan(); {
			l.heard <- lines.Text()
		}
	}()
	return l
}

// all ends the connection, and returns what was heard on it.
func (l *listener) all() string {
	_ = l.conn.Close()
	var all []string
	for line := range l.heard {
		all = append(all, line)
	}
	return strings.Join(all, " ")
}

// orderly returns a supervisor of a worker that runs, without a task that does, and with members that are ready.
func orderly(t *testing.T, ready int) (*supervisor, []*listener) {
	t.Helper()
	sup := &supervisor{state: container.Running, job: jobsocket.New(), io: session.NewServer(container.Settings{}),
		memory: newGPUMemory(), image: newImage(nil), tasks: []*task{{TaskState: lifecycle.TaskState{State: container.Exited},
			container: &runcContainer{}}}}
	sup.memory.abandon() // no driver is called
	var list []*listener
	for range ready {
		l := listen(t)
		l.member = sup.job.Add(l.conn)
		l.member.Ready = true
		list = append(list, l)
	}
	return sup, list
}

// frozen is a cgroup that notes how it was frozen.
type frozen struct {
	cgroups.Manager
	states []cgroups.FreezerState
	cores  []string
	err    error
}

func (f *frozen) Freeze(s cgroups.FreezerState) error { f.states = append(f.states, s); return f.err }

func (f *frozen) Path(string) string { return "/nowhere" }

func (f *frozen) GetCgroups() (*cgroups.Cgroup, error) {
	return &cgroups.Cgroup{Resources: &cgroups.Resources{}}, nil
}

func (f *frozen) Set(r *cgroups.Resources) error {
	f.cores = append(f.cores, r.CpusetCpus)
	return f.err
}

// TestCoresOfTasksThatDoNotRun: only tasks that run are bound to other cores, and none once that has failed.
func TestCoresOfTasksThatDoNotRun(t *testing.T) {
	for _, c := range []struct {
		state container.State
		err   error
		cores string
		bound string
	}{{container.Created, nil, "2-3", "0-1,2-3 2-3"}, {container.Exited, nil, "2-3", "0-1,2-3 2-3"},
		{container.Running, errors.New("no cpuset"), "0-1", "0-1,2-3"}} {
		f := &frozen{err: c.err}
		r := &sharedResources{cgroup: f, cores: "0-1"}
		err := r.setCores("2-3", []*task{{TaskState: lifecycle.TaskState{State: c.state}}})
		if !errors.Is(err, c.err) || r.cores != c.cores || strings.Join(f.cores, " ") != c.bound {
			t.Errorf("%+v: %v, cores %s, bound to %v", c, err, r.cores, f.cores)
		}
	}
}

// TestWhichSwitchIsCarriedOut goes through the guards of an order to pause or to go on.
func TestWhichSwitchIsCarriedOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		state   container.State
		before  int // number of the last order
		number  int
		saving  bool
		says    string
		ordered int
		done    int
	}{
		{"to pause", container.Running, 0, 1, false, "", 1, 1}, {"to go on", container.Running, 1, 2, false, "", 2, 2},
		{"again", container.Running, 3, 3, false, "", 3, 0}, {"an older one", container.Running, 3, 2, false, "", 3, 0},
		{"the next but one", container.Running, 1, 3, false, "", 3, 3},
		{"it does not run", container.Created, 0, 1, false, "does not run", 0, 0},
		{"it has ended", container.Exited, 0, 1, false, "does not run", 0, 0},
		{"it is being saved", container.Running, 0, 1, true, "is being saved", 0, 0},
		{"to go on while it is being saved", container.Running, 1, 2, true, "is being saved", 1, 0},
		{"again while it is being saved", container.Running, 1, 1, true, "", 1, 0},
	} {
		sup, _ := orderly(t, 0)
		if sup.state = c.state; c.saving {
			sup.image.phase = saving
		}
		sup.switching.Ordered, sup.switching.Problem = c.before, "old"
		err := sup.switchTo(container.SwitchOrder{Number: c.number})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if s := sup.switching; s.Ordered != c.ordered || s.Done != c.done || (s.Problem == "") != (c.done != 0) {
			t.Errorf("%s: %+v", c.name, s.Switching)
		}
	}
}

// TestWhenAllHaveDoneWhatWasOrdered has two members come to each number, under each order. All that are ready must
// have come to it to pause, and none may stand still to go on.
func TestWhenAllHaveDoneWhatWasOrdered(t *testing.T) {
	for ordered := 1; ordered <= 4; ordered++ {
		for first := 0; first <= 5; first++ {
			for second := 0; second <= 5; second++ {
				for _, ready := range []bool{true, false} {
					sup, list := orderly(t, 0)
					for _, n := range []int{first, second} {
						m := sup.job.Add(nil)
						m.Ready, m.Done = true, n
						list = append(list, &listener{member: m})
					}
					list[1].member.Ready = ready
					sup.begin(container.SwitchOrder{Number: ordered})
					sup.switching.Done = ordered - 1
					sup.checkSwitch()
					done := first >= ordered && (second >= ordered || !ready)
					if ordered%2 == 0 {
						done = first%2 == 0 && (second%2 == 0 || !ready)
					}
					if got := sup.switching.Done == ordered; got != done ||
						(sup.switching.Means == container.Cooperative) != (done && ordered%2 == 1) {
						t.Errorf("order %d, at %d and %d, of which the second counts %t: done %t", ordered, first, second, ready, got)
					}
				}
			}
		}
	}
	for name, c := range map[string]struct {
		edit func(*supervisor)
		done int
		by   container.Means
	}{
		"those that were asked are gone": {func(s *supervisor) { s.switching.due = make(chan time.Time) }, 3,
			container.Frozen},
		"none was asked": {func(*supervisor) {}, 2, ""},
		"it was done":    {func(s *supervisor) { s.switching.Done = 3 }, 3, ""},
		"the GPU driver holds its GPU memory": {func(s *supervisor) {
			s.switching.due,
				s.memory.onHost = make(chan time.Time), true
		}, 2, ""},
		"the driver moves it": {func(s *supervisor) {
			s.switching.due,
				s.memory.moving = make(chan time.Time), true
		}, 2, ""},
		"going on, the driver has it still": {func(s *supervisor) { s.switching.order.Number, s.memory.onHost = 4, true },
			2, ""},
		"going on, and nothing is waited on": {func(s *supervisor) { s.switching.order.Number = 4 }, 3, ""},
	} {
		sup, _ := orderly(t, 0)
		sup.begin(container.SwitchOrder{Number: 3})
		sup.switching.Done = 2
		c.edit(sup)
		sup.checkSwitch()
		if s := sup.switching; s.Done != c.done || s.Means != c.by || s.Problem != "" {
			t.Errorf("%s: %+v", name, s.Switching)
		}
	}
}

// TestWhatMembersAreHeardFor: a word counts up to the next order, under a number of its kind, and is never taken back.
func TestWhatMembersAreHeardFor(t *testing.T) {
	for ordered := range 4 {
		for number := -2; number <= ordered+3; number++ {
			for _, say := range []string{jobsocket.SayPaused, jobsocket.SayResumed, "sleeping"} {
				sup, list := orderly(t, 1)
				sup.switching.Ordered, sup.switching.Done, sup.switching.order.Number = ordered, ordered, ordered
				m := list[0].member
				sup.hear(jobsocket.Saying{From: m, Say: say, Number: number})
				want := 0
				if say == jobsocket.SayPaused && number%2 == 1 || say == jobsocket.SayResumed && number%2 == 0 {
					want = max(0, number)
				}
				if number > ordered+1 {
					want = 0
				}
				if m.Done != want {
					t.Errorf("after order %d %s %d counts as %d, not %d", ordered, say, number, m.Done, want)
				}
				before := m.Done
				if sup.hear(jobsocket.Saying{From: m, Say: say, Number: number - 2}); want > 0 && m.Done != before {
					t.Errorf("%s %d is taken back: %d", say, number, m.Done)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		order        int
		stops, ready bool
		gone         bool
		want         string
	}{
		"it runs":              {2, false, false, false, ""},
		"it is to pause":       {3, false, false, false, `{"do":"pause","number":3}`},
		"it said so before":    {3, false, true, false, ""},
		"it is to stop":        {3, true, false, false, `{"do":"stop"}`},
		"it is gone meanwhile": {3, false, false, true, ""},
	} {
		sup, _ := orderly(t, 0)
		l := listen(t)
		l.member = sup.job.Add(l.conn)
		l.member.Ready = c.ready
		sup.begin(container.SwitchOrder{Number: c.order})
		sup.switching.stops = c.stops
		sup.hear(jobsocket.Saying{From: l.member, Say: jobsocket.SayReady, Gone: c.gone})
		if l.member.Ready == c.gone {
			t.Errorf("%s: it is ready: %t", name, l.member.Ready)
		}
		if got := l.all(); got != c.want {
			t.Errorf("%s: it hears %q, not %q", name, got, c.want)
		}
	}
}

// TestWhatAWorkerCannotBeFrozenFor: its memory, or its steps, whose memory is not moved; and why is said.
func TestWhatAWorkerCannotBeFrozenFor(t *testing.T) {
	no := errors.New("no freezer")
	for name, c := range map[string]struct {
		place    bool
		noFreeze string
		away     bool
		err      error
		by       container.Means
		says     string
		wanted   bool // its memory is wanted on the host
		states   []cgroups.FreezerState
	}{
		"nothing":            {by: container.Frozen},
		"its memory":         {noFreeze: "it has memory", wanted: true},
		"its memory is away": {away: true, wanted: true},
		"both":               {noFreeze: "it has memory", away: true, wanted: true},
		"with steps":         {place: true, by: container.Frozen, states: []cgroups.FreezerState{cgroups.Frozen}},
		"with steps and memory": {place: true, noFreeze: "it has memory",
			says: "why, and it cannot be frozen: it has memory; the GPU"},
		"steps that cannot be": {place: true, err: no, says: "why, and it cannot be frozen: no freezer",
			states: []cgroups.FreezerState{cgroups.Frozen, cgroups.Thawed}},
		"steps, and memory moves": {place: true, away: true, wanted: true},
	} {
		sup, _ := orderly(t, 0)
		group := &frozen{err: c.err}
		sup.settings.Place, sup.shared = c.place, &sharedResources{cgroup: group}
		sup.memory.onHost = c.away
		sup.begin(container.SwitchOrder{Number: 1, NoFreeze: c.noFreeze})
		sup.switching.due = make(chan time.Time)
		sup.freeze("why")
		if s := sup.switching; s.Means != c.by || s.Done != map[bool]int{true: 1}[c.by != ""] || s.due != nil ||
			!strings.HasPrefix(s.Problem, c.says) || (s.Problem == "") != (c.says == "") {
			t.Errorf("%s: %+v", name, s.Switching)
		}
		if sup.memory.wanted != c.wanted || !slices.Equal(group.states, c.states) {
			t.Errorf("%s: memory wanted on the host %t, cgroup %v", name, sup.memory.wanted, group.states)
		}
		want := "why, and it cannot be frozen: " + cmp.Or(c.noFreeze, "its GPU memory was just being restored")
		if c.wanted && sup.memory.because != want {
			t.Errorf("%s: because %q, not %q", name, sup.memory.because, want)
		}
	}
	sup, _ := orderly(t, 0)
	group := &frozen{}
	sup.settings.Place, sup.shared = true, &sharedResources{cgroup: group}
	for range 2 { // each once
		check(t, sup.freezeTasks())
		check(t, sup.freezeTasks())
		sup.thaw()
		sup.thaw()
	}
	if got := fmt.Sprint(group.states); got != "[FROZEN THAWED FROZEN THAWED]" {
		t.Errorf("the cgroup was %s", got)
	}
}

// TestGoingOnWaitsForTheMemory: processes that have paused are told to go on when their memory is back, and not before.
func TestGoingOnWaitsForTheMemory(t *testing.T) {
	for _, away := range []bool{true, false} {
		sup, list := orderly(t, 1)
		sup.switching.Ordered, list[0].member.Done, sup.memory.onHost = 1, 1, away
		check(t, sup.switchTo(container.SwitchOrder{Number: 2}))
		if s := sup.switching; (s.due == nil) != away || s.Done == 2 {
			t.Errorf("memory away %t: %+v", away, s)
		}
		if got := list[0].all(); got != map[bool]string{false: `{"do":"resume","number":2}`}[away] {
			t.Errorf("memory away %t: it hears %q", away, got)
		}
	}
}

// TestATaskThatCannotBeFrozen notices a worker that counts as frozen though a task of it runs, and one that counts
// as not frozen because of a task that has ended.
func TestATaskThatCannotBeFrozen(t *testing.T) {
	sup := idle(t)
	sup.begin(container.SwitchOrder{Number: 1})
	if sup.freeze("why"); sup.switching.Problem == "" || sup.switching.froze || sup.switching.Done != 0 {
		t.Errorf("%+v", sup.switching)
	}
	sup.tasks[0].State = container.Exited
	if sup.freeze("why"); sup.switching.Means != container.Frozen || sup.switching.Done != 1 {
		t.Errorf("%+v", sup.switching)
	}
}

// TestWhenAnAnswerIsOverdue: a worker that is to pause is frozen, and one that is to go on counts as going on.
func TestWhenAnAnswerIsOverdue(t *testing.T) {
	for number, want := range map[int]container.Switching{1: {Ordered: 1, Problem: "it did not reach a pause point in " +
		"time, and it cannot be frozen: it has memory; the GPU memory of steps cannot be moved"},
		2: {Ordered: 2, Done: 2, Means: container.Cooperative}} {
		sup, _ := orderly(t, 1)
		sup.settings.Place = true
		sup.begin(container.SwitchOrder{Number: number, NoFreeze: "it has memory"})
		sup.switching.Means = map[int]container.Means{2: container.Cooperative}[number]
		sup.switchOverdue()
		if got := sup.switching.Switching; got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	for number, stops := range map[int]bool{0: false, 1: true, 2: false, 3: true} {
		sup, list := orderly(t, 1)
		sup.begin(container.SwitchOrder{Number: number})
		sup.switching.froze, sup.memory.wanted = true, true
		due := make(chan time.Time)
		sup.switching.due = due
		sup.wake()
		heard := map[bool]string{true: `{"do":"stop"}`}[stops]
		if s := sup.switching; s.stops != stops || s.froze == stops || (s.due == nil) != stops ||
			sup.memory.wanted == stops {
			t.Errorf("order %d: %+v", number, s)
		}
		if got := list[0].all(); got != heard {
			t.Errorf("after order %d it hears %q, not %q", number, got, heard)
		}
	}
}

// TestWhoIsAskedToStop: the tasks that the sidecars are there for, each with its own signal; which are noted.
func TestWhoIsAskedToStop(t *testing.T) {
	tasks := func(t *testing.T) (*supervisor, []*listener) {
		sup, _ := orderly(t, 0)
		sup.tasks = nil
		var list []*listener
		for _, c := range []struct {
			hook    string
			sidecar bool
			state   container.State
		}{{"", false, container.Running}, {"", false, container.Created}, {"", false, container.Exited},
			{"prestart", true, container.Running}, {"poststart", false, container.Running},
			{"poststop", false, container.Running}} {
			l := listen(t)
			one := &task{TaskState: lifecycle.TaskState{Task: container.Task{Hook: c.hook, Sidecar: c.sidecar, KillSignal: 2},
				State: c.state}, container: &runcContainer{channel: l.conn, ended: make(chan struct{})}}
			if c.state == container.Exited {
				close(one.container.ended)
			}
			sup.tasks, list = append(sup.tasks, one), append(list, l)
		}
		return sup, list
	}
	const stop, plain = `{"signal":2,"stop":true}`, `{"signal":10,"to":"script"}`
	for name, c := range map[string]struct {
		shared bool
		do     func(*supervisor) error
		want   []string
		asked  bool
	}{
		"a stop": {true, func(s *supervisor) error { return s.signalTasks((*task).StopSignal, "") },
			[]string{stop, "", "", "", stop, ""}, true},
		"a stop of a single task": {false, func(s *supervisor) error { return s.signalTasks((*task).StopSignal, "") },
			[]string{stop, stop, stop, stop, stop, stop}, true},
		"a plain signal": {true, func(s *supervisor) error { return s.signalMain(unix.SIGUSR1, "script") },
			[]string{plain, "", "", "", "", ""}, false},
		"an early signal": {true, func(s *supervisor) error {
			return errors.Join(s.signalEarly(unix.SIGUSR1, "script"), s.signalEarly(unix.SIGUSR1, "script"))
		}, []string{plain, "", "", "", "", ""}, false},
	} {
		sup, list := tasks(t)
		if c.shared {
			sup.shared = &sharedResources{}
		}
		check(t, c.do(sup))
		if sup.Stopping != (c.asked && c.shared) {
			t.Errorf("%s: stopping %t", name, sup.Stopping)
		}
		for i, l := range list {
			if got := l.all(); got != c.want[i] {
				t.Errorf("%s: task %d hears %q, not %q", name, i, got, c.want[i])
			}
			if want := c.asked && i != 2; sup.tasks[i].Asked != want {
				t.Errorf("%s: task %d was asked: %t", name, i, !want)
			}
		}
	}
	sup, _ := orderly(t, 0)
	if err := sup.signalEarly(unix.SIGUSR1, ""); err != nil || !sup.early {
		t.Errorf("an early signal that no task gets: %v, told %t", err, sup.early)
	}
	sup, list := tasks(t)
	_ = list[0].conn.Close()
	if err := sup.signalEarly(unix.SIGUSR1, ""); err == nil || sup.early {
		t.Errorf("an early signal that cannot be sent: %v, told %t", err, sup.early)
	}
}

// TestTheEndOfALease notices a lease that ends twice, one that kills at once what runs, and one that lets start what
// does not.
func TestTheEndOfALease(t *testing.T) {
	for _, c := range []struct {
		state   container.State
		grace   int64
		kill    bool // after the grace
		noGrace bool
	}{{container.Running, 400, true, false}, {container.Running, 0, true, false}, {container.Created, 400, false, true}} {
		sup := idle(t)
		sup.state, sup.tasks[0].State, sup.settings.LeaseGrace = c.state, c.state, c.grace
		sup.stopExpired()
		if !sup.expired || !sup.NoMoreStarts || (sup.killAt != nil) != c.kill ||
			sup.tasks[0].container.hasEnded() != c.noGrace {
			t.Errorf("%+v: expired %t, no more starts %t, a kill follows %t, it has ended %t", c, sup.expired, sup.NoMoreStarts,
				sup.killAt != nil, sup.tasks[0].container.hasEnded())
		}
		sup.killAt = nil
		if sup.stopExpired(); sup.killAt != nil {
			t.Errorf("%+v: it ends twice", c)
		}
		want := time.Duration(c.grace) * time.Millisecond
		if c.grace == 0 {
			want = 10 * time.Second
		}
		if got := sup.leaseGrace(); got != want {
			t.Errorf("%+v: the grace is %v", c, got)
		}
	}
	for _, state := range []container.State{container.Created, container.Running, container.Exited} {
		sup := idle(t)
		sup.tasks[0].State = state
		sup.killAll()
		if got := sup.tasks[0].container.hasEnded(); got != (state != container.Exited) || !sup.NoMoreStarts {
			t.Errorf("a task that is %s is killed: %t", state, got)
		}
		if sup.memory.ctx.Err() == nil {
			t.Error("the driver goes on with the memory of what is killed")
		}
	}
	hour := container.BootTime() + int64(time.Hour)
	for _, c := range []struct {
		end, to, want int64
		err           error
	}{
		{0, hour, 0, nil}, {hour, hour - 1, hour, nil}, {hour, hour, hour, nil}, {hour, hour + 1, hour + 1, nil},
		{1, hour, 1, errLeaseOver}, {hour, 0, hour, nil},
	} {
		l, err := newLease(c.end)
		check(t, err)
		if err := l.extend(c.to); !errors.Is(err, c.err) || l.end != c.want {
			t.Errorf("%+v: %v, it ends at %d", c, err, l.end)
		}
		check(t, l.timer.Close())
	}
}

// TestASignalForARank goes to that rank, and one for all to all.
func TestASignalForARank(t *testing.T) {
	for task, want := range map[uint32]string{0: `{"signal":10,"rank":0}`, 3: `{"signal":10,"rank":3}`,
		stream.AllTasks: `{"signal":10}`} {
		l := listen(t)
		(&runcContainer{channel: l.conn}).signalRank(task, unix.SIGUSR1)
		if got := l.all(); got != want {
			t.Errorf("for task %d it hears %s", task, got)
		}
	}
}
