package lifecycle

import (
	"testing"

	"github.com/rota-hpc/rota/noded/container"
)

// one returns a task in a state; edits may change it.
func one(name, hook string, edits ...func(*TaskState)) *TaskState {
	t := &TaskState{Task: container.Task{Name: name, Hook: hook}, State: container.Exited,
		Exit: container.Exit{Own: true}}
	for _, e := range edits {
		e(t)
	}
	return t
}

func byCode(n int) func(*TaskState)   { return func(t *TaskState) { t.Exit.Code = n } }
func bySignal(n int) func(*TaskState) { return func(t *TaskState) { t.Exit.Signal = n } }
func asked(t *TaskState)              { t.Exit.Own = false }
func byOthers(t *TaskState)           { t.StoppedByOthers = true }
func leads(t *TaskState)              { t.Leader = true }
func beside(t *TaskState)             { t.Sidecar = true }
func unstarted(t *TaskState)          { t.State = container.Created }
func running(t *TaskState)            { t.State = container.Running }

// TestHowAWorkerEnds goes through the tasks that decide the exit of a worker, whether it is its own, and which
// task is named for it.
func TestHowAWorkerEnds(t *testing.T) {
	const no = ""
	for _, c := range []struct {
		name    string
		success string
		asked   int // the signal by which the worker was asked
		tasks   []*TaskState
		code    int
		signal  int
		own     bool
		named   string
	}{
		{"it succeeds", no, 0, []*TaskState{one("m", no)}, 0, 0, true, no},
		{"it succeeds after it was asked", no, 15, []*TaskState{one("m", no, asked)}, 0, 0, false, no},
		{"it fails", no, 0, []*TaskState{one("m", no, byCode(3))}, 3, 0, true, no},
		{"it fails after it was asked", no, 15, []*TaskState{one("m", no, byCode(3), asked)}, 3, 0, false, no},
		{"the worst code", no, 0, []*TaskState{one("m", no, byCode(3)), one("n", no, byCode(7)), one("o", no, byCode(5))}, 7,
			0, true, no},
		{"a signal is worse", no, 0, []*TaskState{one("m", no, byCode(128)), one("n", no, bySignal(1))}, 0, 1, true, no},
		{"a code above all signals", no, 0, []*TaskState{one("m", no, byCode(250)), one("n", no, bySignal(9))}, 250, 0, true,
			no},
		{"the worse of two decides whose it is", no, 0, []*TaskState{one("m", no, byCode(3), asked), one("n", no,
			byCode(4))}, 4, 0, true, no},
		{"a lesser one does not", no, 0, []*TaskState{one("m", no, byCode(4)), one("n", no, byCode(3), asked)}, 4, 0, true,
			no},
		{"nor does a set-up", no, 0, []*TaskState{one("p", "prestart", asked), one("m", no)}, 0, 0, true, no},
		{"of equal ones both do", no, 0, []*TaskState{one("m", no, byCode(3)), one("n", no, byCode(3), asked)}, 3, 0, false,
			no},
		{"both succeed, one asked", no, 0, []*TaskState{one("m", no), one("n", no, asked)}, 0, 0, false, no},
		{"one that others ended is left out", no, 0, []*TaskState{one("m", no), one("n", no, byCode(3), byOthers, asked)}, 0,
			0, true, no},
		{"only the leader", "leader", 0, []*TaskState{one("m", no, byCode(3)), one("n", no, leads, byCode(4))}, 4, 0, true,
			no},
		{"the first leads", "leader", 0, []*TaskState{one("m", no, byCode(3)), one("n", no, byCode(4))}, 3, 0, true, no},
		{"any succeeds", "any", 0, []*TaskState{one("m", no, byCode(3)), one("n", no)}, 0, 0, true, no},
		{"any succeeds after it was asked", "any", 0, []*TaskState{one("m", no, byCode(3)), one("n", no, asked)}, 0, 0,
			false, no},
		{"one of any was not asked", "any", 0, []*TaskState{one("m", no, asked), one("n", no)}, 0, 0, true, no},
		{"none of any", "any", 0, []*TaskState{one("m", no, byCode(3)), one("n", no, byCode(2))}, 3, 0, true, no},
		{"one of any runs still", "any", 0, []*TaskState{one("m", no, byCode(3)), one("n", no, running)}, 3, 0, true, no},
		{"a set-up fails", no, 0, []*TaskState{one("p", "prestart", byCode(2)), one("m", no, unstarted)}, 2, 0, true,
			"prestart task p"},
		{"a sidecar fails", no, 0, []*TaskState{one("p", "prestart", beside, byCode(2)), one("m", no)}, 0, 0, true, no},
		{"a task beside fails", no, 0, []*TaskState{one("p", "poststart", byCode(2)), one("m", no)}, 2, 0, true,
			"poststart task p"},
		{"a main task is named by none", no, 0, []*TaskState{one("p", "poststart", byCode(2)), one("m", no, byCode(2))}, 2, 0,
			true, no},
		{"a clean-up fails", no, 0, []*TaskState{one("p", "poststop", byCode(2)), one("m", no)}, 2, 0, true,
			"poststop task p"},
		{"a clean-up fails after all", no, 0, []*TaskState{one("p", "poststop", byCode(9)), one("m", no, byCode(1))}, 1, 0,
			true, no},
		{"it never ran", no, 0, []*TaskState{one("m", no, unstarted)}, 0, 9, false, no},
		{"it never ran and was asked", no, 10, []*TaskState{one("m", no, unstarted)}, 0, 10, false, no},
		{"one of two never ran", no, 15, []*TaskState{one("m", no), one("n", no, unstarted)}, 0, 15, false, no},
		{"one of two never ran, the other failed", no, 15, []*TaskState{one("m", no, byCode(2)), one("n", no, unstarted)}, 2,
			0, true, no},
		{"a set-up ran alone", no, 15, []*TaskState{one("p", "prestart"), one("m", no, unstarted)}, 0, 15, false, no},
	} {
		got, named := ExitOf(c.tasks, Phase{Success: c.success, AskedBy: c.asked})
		if got.Code != c.code || got.Signal != c.signal || got.Own != c.own || named != c.named {
			t.Errorf("%s: %d:%d, its own %t, of %q", c.name, got.Code, got.Signal, got.Own, named)
		}
	}
}

// TestWhichEndDecides: of all, of the leader, or of any; not of one that others ended, that runs, or that is no
// main task.
func TestWhichEndDecides(t *testing.T) {
	for _, c := range []struct {
		name    string
		success string
		tasks   []*TaskState
		want    bool
	}{
		{"one failed", "", []*TaskState{one("m", "", byCode(1)), one("n", "", running)}, true},
		{"one succeeded", "", []*TaskState{one("m", ""), one("n", "", running)}, false},
		{"one of any succeeded", "any", []*TaskState{one("m", ""), one("n", "", running)}, true},
		{"one of any failed", "any", []*TaskState{one("m", "", byCode(1)), one("n", "", running)}, false},
		{"the leader succeeded", "leader", []*TaskState{one("m", ""), one("n", "", running)}, true},
		{"the leader failed", "leader", []*TaskState{one("m", "", byCode(1)), one("n", "", running)}, true},
		{"another than the leader", "leader", []*TaskState{one("m", "", running), one("n", "", byCode(1))}, false},
		{"one that others ended", "", []*TaskState{one("m", "", byCode(1), byOthers), one("n", "", running)}, false},
		{"one has not begun", "", []*TaskState{one("m", "", unstarted, byCode(1))}, false},
		{"one runs", "", []*TaskState{one("m", "", running, byCode(1))}, false},
		{"a sidecar", "", []*TaskState{one("p", "prestart", beside, byCode(1)), one("m", "", running)}, false},
		{"a set-up", "", []*TaskState{one("p", "prestart", byCode(1)), one("m", "", running)}, false},
		{"a task beside", "", []*TaskState{one("p", "poststart", byCode(1)), one("m", "", running)}, true},
		{"a task beside that succeeded", "", []*TaskState{one("p", "poststart"), one("m", "", running)}, false},
		{"a task beside that others ended", "", []*TaskState{one("p", "poststart", byCode(1), byOthers),
			one("m", "", running)}, false},
		{"a task beside that runs", "", []*TaskState{one("p", "poststart", byCode(1), running), one("m", "", running)},
			false},
	} {
		if got := outcomeDecided(c.tasks, c.success); got != c.want {
			t.Errorf("%s: decided %t", c.name, got)
		}
	}
	first, second, side := one("m", ""), one("n", ""), one("p", "prestart", leads)
	if LeaderOf([]*TaskState{side, first, second}) != first || LeaderOf([]*TaskState{side}) != nil {
		t.Error("the first main task leads, if none is marked")
	}
	second.Leader = true
	if LeaderOf([]*TaskState{side, first, second}) != second {
		t.Error("the main task leads that is marked")
	}
}

// TestSeverity orders exits: a signal counts as 128 more than its number.
func TestSeverity(t *testing.T) {
	for want, e := range map[int]container.Exit{0: {}, 1: {Code: 1}, 137: {Signal: 9}, 143: {Signal: 15, Code: 200}} {
		if got := severity(e); got != want {
			t.Errorf("%+v is as severe as %d, want %d", e, got, want)
		}
	}
}
