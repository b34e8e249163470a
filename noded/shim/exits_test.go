package shim

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
)

// TestLastWords: that of the leader counts where it decides, else that of any main task.
func TestLastWords(t *testing.T) {
	for _, c := range []struct {
		success             string
		first, second, side bool // said it
		want                bool
	}{
		{"", false, false, false, false}, {"", true, false, false, true}, {"", false, true, false, true},
		{"", false, false, true, false}, {"any", false, true, false, true}, {"leader", false, true, false, false},
		{"leader", true, false, false, true},
	} {
		sup := &supervisor{Phase: lifecycle.Phase{Success: c.success}}
		for i, said := range []bool{c.side, c.first, c.second} {
			k := &task{TaskState: lifecycle.TaskState{Task: container.Task{Hook: []string{"poststart", "", ""}[i]}}}
			k.finished.found.Store(said)
			sup.tasks = append(sup.tasks, k)
		}
		if got := sup.saidFinished(); got != c.want {
			t.Errorf("%+v: finished %t", c, got)
		}
	}
}

// TestTextOfALimit: a limit of none is no number.
func TestTextOfALimit(t *testing.T) {
	if limitText(7) != "7" || limitText(1<<64-1) != "unlimited" {
		t.Error("limits")
	}
}

// TestTheRecordOfASingleTask: what the record of a worker of one task says beside how that has ended.
func TestTheRecordOfASingleTask(t *testing.T) {
	failed := container.Exit{Code: 3}
	for name, c := range map[string]struct {
		exit     container.Exit
		executed bool
		edit     func(*supervisor)
		want     container.Exit
	}{
		"it ended": {container.Exit{Own: true}, true, func(*supervisor) {}, container.Exit{Own: true}},
		"it never began": {container.Exit{Signal: 9}, false, func(*supervisor) {},
			container.Exit{Signal: 9, Unbegun: true}},
		"by its lease": {container.Exit{Signal: 15}, true, func(s *supervisor) { s.expired = true },
			container.Exit{Signal: 15, Lease: true}},
		"before its lease": {container.Exit{Code: 2, Own: true}, true, func(s *supervisor) { s.expired = true },
			container.Exit{Code: 2, Own: true}},
		"its memory is lost": {failed, true, func(s *supervisor) {
			s.memory.lost, s.image.phase, s.image.why, s.isHungUp = "m", lost, "s", true
		},
			container.Exit{Code: 3, Why: "m"}},
		"its image is lost": {failed, true, func(s *supervisor) {
			s.image.phase, s.image.why, s.isHungUp = lost, "s", true
		},
			container.Exit{Code: 3, Why: "s"}},
		"hung up": {failed, true, func(s *supervisor) { s.isHungUp = true },
			container.Exit{Code: 3, Why: "its terminal was closed: nothing had been attached to it for 7s"}},
		"hung up by a signal": {container.Exit{Signal: 1}, true, func(s *supervisor) { s.isHungUp = true },
			container.Exit{Signal: 1, Why: "its terminal was closed: nothing had been attached to it for 7s"}},
		"hung up, and it ended well": {container.Exit{}, true, func(s *supervisor) { s.isHungUp = true }, container.Exit{}},
		"saved": {container.Exit{Signal: 9, OOM: true, Own: true, Killed: "k"}, true,
			func(s *supervisor) { s.image.phase = saved }, container.Exit{Signal: 9, Saved: true}},
		"saved at the end of its lease": {container.Exit{Signal: 9, Own: true}, true, func(s *supervisor) {
			s.image.phase, s.expired = saved, true
		}, container.Exit{Signal: 9, Saved: true, Lease: true}},
		"not restored": {container.Exit{Signal: 9}, false, func(s *supervisor) {
			s.image.phase, s.image.why, s.memory.lost = unrestored, "no image", "m"
		}, container.Exit{Signal: 9, Unbegun: true, NotRestored: true, Why: "no image"}},
	} {
		one := &task{TaskState: lifecycle.TaskState{State: container.Exited, Executed: c.executed, Exit: c.exit}}
		sup := &supervisor{tasks: []*task{one}, settings: container.Settings{IO: &container.IO{HangUpMS: 7000}}}
		c.edit(sup)
		if got := sup.exitRecord(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
}

// TestTheRecordOfSeveralTasks: sums of what they used, what the first was killed for, and what ended the worker.
func TestTheRecordOfSeveralTasks(t *testing.T) {
	used := func(user, system, peak, lost int64) container.Exit {
		return container.Exit{UserMS: user, SystemMS: system, PeakMem: peak, LogLost: lost, Own: true}
	}
	killed := func(why string) container.Exit {
		return container.Exit{Signal: 9, OOM: true, Killed: why, Own: true}
	}
	for name, c := range map[string]struct {
		exits []container.Exit // of tasks "a", "b"
		hook  string           // of the last
		edit  func(*supervisor)
		want  container.Exit
	}{
		"sums": {[]container.Exit{used(1, 20, 300, 4000), used(5, 60, 200, 8000)}, "", func(*supervisor) {},
			container.Exit{UserMS: 6, SystemMS: 80, PeakMem: 300, LogLost: 12000, Own: true}},
		"one alone is not named": {[]container.Exit{killed("x")}, "", func(*supervisor) {},
			container.Exit{Signal: 9, OOM: true, Killed: "x", Own: true}},
		"the first that was killed": {[]container.Exit{killed("x"), killed("y")}, "", func(*supervisor) {},
			container.Exit{Signal: 9, OOM: true, Killed: "task a: x", Own: true}},
		"the second was killed": {[]container.Exit{{Own: true}, killed("y")}, "", func(*supervisor) {},
			container.Exit{Signal: 9, OOM: true, Killed: "task b: y", Own: true}},
		"none began": {[]container.Exit{{}, {}}, "", func(s *supervisor) {
			s.tasks[0].Executed, s.tasks[1].Executed = false,
				false
		},
			container.Exit{Unbegun: true}},
		"one began": {[]container.Exit{{}, {}}, "", func(s *supervisor) { s.tasks[0].Executed = false }, container.Exit{}},
		"by its lease": {[]container.Exit{{Signal: 15}, {Signal: 15}}, "", func(s *supervisor) { s.expired = true },
			container.Exit{Signal: 15, Lease: true}},
		"before its lease": {[]container.Exit{{Code: 1, Own: true}}, "", func(s *supervisor) { s.expired = true },
			container.Exit{Code: 1, Own: true}},
		"its memory is lost": {[]container.Exit{{Code: 1}, {Code: 1}}, "", func(s *supervisor) {
			s.memory.lost, s.isHungUp = "m", true
		}, container.Exit{Code: 1, Why: "m"}},
		"hung up": {[]container.Exit{{}, {Signal: 1}}, "poststart", func(s *supervisor) { s.isHungUp = true },
			container.Exit{Signal: 1, Why: "its terminal was closed: nothing had been attached to it for 7s"}},
		"hung up, by a code": {[]container.Exit{{Code: 1}}, "", func(s *supervisor) { s.isHungUp = true },
			container.Exit{Code: 1, Why: "its terminal was closed: nothing had been attached to it for 7s"}},
		"hung up, and all ended well": {[]container.Exit{{}, {}}, "", func(s *supervisor) { s.isHungUp = true },
			container.Exit{}},
		"a task beside": {[]container.Exit{{Own: true}, {Code: 4, Own: true}}, "poststart", func(*supervisor) {},
			container.Exit{Code: 4, Own: true, Why: "its poststart task b ended with exit code 4"}},
	} {
		sup := &supervisor{settings: container.Settings{IO: &container.IO{HangUpMS: 7000}},
			shared: &sharedResources{cgroup: &frozen{}, path: "/nowhere/at/all"}}
		for i, e := range c.exits {
			one := &task{TaskState: lifecycle.TaskState{Task: container.Task{Name: []string{"a", "b"}[i]},
				State: container.Exited, Executed: true, Exit: e}}
			if i > 0 && i == len(c.exits)-1 {
				one.Hook = c.hook
			}
			sup.tasks = append(sup.tasks, one)
		}
		c.edit(sup)
		got := sup.exitRecord()
		if len(got.Tasks) != len(c.exits) {
			t.Errorf("%s: tasks %+v", name, got.Tasks)
			continue
		}
		for i, one := range got.Tasks {
			if e := c.exits[i]; one != (container.TaskExit{Name: []string{"a", "b"}[i], Begun: true, Code: e.Code,
				Signal: e.Signal, OOM: e.OOM}) {
				t.Errorf("%s: %+v", name, one)
			}
		}
		got.Ended, got.Tasks = 0, nil
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
}

// TestWhatRotaInitMeansByACode: without a channel, and only then, 128 and more is a signal that there is.
func TestWhatRotaInitMeansByACode(t *testing.T) {
	for code, signal := range map[int]int{127: 0, 128: 0, 129: 1, 192: 64, 193: 0, 255: 0} {
		for _, detaching := range []bool{true, false} {
			c := &runcContainer{results: make(chan launch.Result), detaching: detaching,
				waited: waitFor(t, fmt.Sprintf("exit %d", code))}
			close(c.results)
			want := container.Exit{Code: code}
			if detaching && signal != 0 {
				want = container.Exit{Signal: signal}
			}
			if e := c.exit(); e.Code != want.Code || e.Signal != want.Signal {
				t.Errorf("exit %d, without a channel %t: %d:%d", code, detaching, e.Code, e.Signal)
			}
		}
	}
}

// TestTimeOfACgroup: it counts if it has more than is known, and never takes away from what the system had.
func TestTimeOfACgroup(t *testing.T) {
	w := live(t, nil, script(`i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo ready; exec sleep 100`)).start()
	w.says("", "ready")
	used, err := container.UsedBy(w.cgroup)
	check(t, err)
	all, system := used.CPU.Milliseconds(), used.System.Milliseconds()
	for _, c := range []struct{ user, system, wantUser, wantSystem int64 }{
		{0, 0, all - system, system}, {0, system + 5, all - system - 5, system + 5}, {all, 0, all, 0}, {all + 1000, 7,
			all + 1000, 7},
		{1, all - 2, 1, all - 1}, {all - 1, 0, all - system, system},
	} {
		e := container.Exit{UserMS: c.user, SystemMS: c.system}
		countTime(&e, w.cgroup)
		if c.system == all-2 { // the system had nearly all of it: nothing is left but a millisecond
			c.wantUser, c.wantSystem = all-c.system, c.system
		}
		const meanwhile = 20 // it may have used a little more
		if d := e.UserMS + e.SystemMS - c.wantUser - c.wantSystem; d < 0 || d > meanwhile || e.SystemMS < c.wantSystem ||
			e.SystemMS > c.wantSystem+meanwhile {
			t.Errorf("%+v: %d and %d", c, e.UserMS, e.SystemMS)
		}
	}
	w.order(container.Order{Op: container.OpKill})
	w.end()
}
