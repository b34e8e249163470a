package reconcile

import (
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

func TestNext(t *testing.T) {
	now := time.Unix(1000, 0)
	later := now.Add(time.Minute)
	wait := &api.Alloc{}
	released := &api.Alloc{Released: true}
	stopping := &api.Alloc{Released: true, Stop: &model.Stop{Cause: model.CauseCancelled, Signal: "SIGTERM"}}
	steps := &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Launch: &jobspec.Launch{Type: "steps"}}}}}}
	starting := &api.Alloc{Released: true, Stop: stopping.Stop, Spec: steps}
	holding := &api.Alloc{Released: true, Stop: stopping.Stop, Spec: steps, Worker: 1}
	lost := &api.Alloc{Released: true, Began: true}
	lostStopping := &api.Alloc{Released: true, Began: true, Stop: stopping.Stop}
	intended := journal.Entry{ID: "1.1.0"}
	started := journal.Entry{ID: "1.1.0", Started: true}
	told := journal.Entry{ID: "1.1.0", Started: true, Stopped: model.CauseCancelled}
	displaced := journal.Entry{ID: "1.1.0", Started: true, Stopped: model.CauseTE}
	pause := &api.Alloc{Released: true, Switch: &api.Switch{Number: 1, Pause: true}}
	goOn := &api.Alloc{Released: true, Switch: &api.Switch{Number: 2}}
	stopPaused := &api.Alloc{Released: true, Switch: pause.Switch, Stop: stopping.Stop}
	bound := journal.Entry{ID: "1.1.0", Started: true, Cores: []int{3}}
	asked, paused := container.Switching{Ordered: 1}, container.Switching{Ordered: 1, Done: 1}
	over := journal.Entry{ID: "1.1.0", Started: true, Final: &model.WorkerReport{State: model.WorkerExited}}
	tests := []struct {
		name  string
		facts Facts
		want  Kind
		state model.WorkerState // of the result
		again time.Time
	}{
		{name: "wanted, nothing there", facts: Facts{Desired: wait}, want: Create},
		{name: "cannot be read, nothing there", facts: Facts{Unread: "no such word"}, want: Finish,
			state: model.WorkerFailed},
		{name: "cannot be read, intent survived a crash",
			facts: Facts{Unread: "no such word", Journaled: true, Entry: intended},
			want:  Forget},
		{name: "cannot be read, runs", facts: Facts{Unread: "no such word", Journaled: true, Entry: started,
			Actual: container.Running}, want: None},
		{name: "cannot be read, runs and has a stop", facts: Facts{Unread: "no such word", Desired: stopping, KillAt: later,
			Journaled: true, Entry: started, Actual: container.Running}, want: Stop, again: later},
		{name: "wanted, intent survived a crash", facts: Facts{Desired: wait, Journaled: true, Entry: intended},
			want: Create},
		{name: "wanted, earlier attempt still runs", facts: Facts{Desired: wait, Blocked: true}, want: None},
		{name: "created, gang incomplete", facts: Facts{Desired: wait, Journaled: true, Entry: intended,
			Actual: container.Created}, want: None},
		{name: "created and released", facts: Facts{Desired: released, Journaled: true, Entry: intended,
			Actual: container.Created}, want: Start},
		{name: "start written down but not done", facts: Facts{Desired: released, Journaled: true, Entry: started,
			Actual: container.Created}, want: Start},
		{name: "runs", facts: Facts{Desired: released, Journaled: true, Entry: started, Actual: container.Running},
			want: None},
		{name: "gone after its start", facts: Facts{Desired: released, Journaled: true, Entry: started}, want: Finish,
			state: model.WorkerFailed},
		{name: "shim lost", facts: Facts{Desired: released, Journaled: true, Entry: started, Actual: container.Lost},
			want: Finish, state: model.WorkerFailed},
		{name: "exited", facts: Facts{Desired: released, Journaled: true, Entry: started, Actual: container.Exited,
			Exit: &container.Exit{Code: 3}},
			want: Finish, state: model.WorkerExited},
		{name: "exited, record unreadable", facts: Facts{Desired: released, Journaled: true, Entry: started,
			Actual: container.Exited},
			want: Finish, state: model.WorkerFailed},
		{name: "holds room, its steps are to stop", facts: Facts{Desired: holding, KillAt: later, Journaled: true,
			Entry: started, Actual: container.Running, Steps: 1}, want: Stop, again: later},
		{name: "holds room, its steps were told", facts: Facts{Desired: holding, KillAt: later, Journaled: true,
			Entry: told, Actual: container.Running, Steps: 1}, want: None, again: later},
		{name: "holds room, its steps have ended", facts: Facts{Desired: holding, KillAt: later, Journaled: true,
			Entry: told, Actual: container.Running}, want: Leave, again: later},
		{name: "holds room, its steps do not end", facts: Facts{Desired: holding, KillAt: now, Journaled: true,
			Entry: told, Actual: container.Running, Steps: 1}, want: Kill},
		{name: "starts steps that have ended", facts: Facts{Desired: starting, KillAt: later, Journaled: true,
			Entry: told, Actual: container.Running}, want: None, again: later},
		{name: "stop before anything", facts: Facts{Desired: stopping, KillAt: later}, want: Finish,
			state: model.WorkerExited},
		{name: "stop before start", facts: Facts{Desired: stopping, KillAt: later, Journaled: true, Entry: intended,
			Actual: container.Created}, want: Kill},
		{name: "stop", facts: Facts{Desired: stopping, KillAt: later, Journaled: true, Entry: started,
			Actual: container.Running}, want: Stop, again: later},
		{name: "stop, told already", facts: Facts{Desired: stopping, KillAt: later, Journaled: true, Entry: told,
			Actual: container.Running}, want: None, again: later},
		{name: "stop for a stronger cause", facts: Facts{Desired: stopping, KillAt: later, Journaled: true,
			Entry: displaced, Actual: container.Running}, want: Stop, again: later},
		{name: "grace over", facts: Facts{Desired: stopping, KillAt: now, Journaled: true, Entry: told,
			Actual: container.Running}, want: Kill},
		{name: "grace over before it was told", facts: Facts{Desired: stopping, KillAt: now, Journaled: true,
			Entry: started, Actual: container.Running}, want: Kill},
		{name: "gone while it was to stop", facts: Facts{Desired: stopping, KillAt: later, Journaled: true,
			Entry: told}, want: Finish, state: model.WorkerFailed},
		{name: "unwanted and running", facts: Facts{Journaled: true, Entry: started, Actual: container.Running},
			want: Kill},
		{name: "unwanted and unknown", facts: Facts{Actual: container.Running}, want: Kill},
		{name: "no controller has said what is wanted",
			facts: Facts{DesiredUnknown: true, Journaled: true, Entry: started, Actual: container.Running},
			want:  None},
		{name: "unwanted before it was made", facts: Facts{Journaled: true, Entry: intended}, want: Forget},
		{name: "unwanted and gone", facts: Facts{Journaled: true, Entry: started}, want: Finish,
			state: model.WorkerFailed},
		{name: "to pause before the start", facts: Facts{Desired: pause, Journaled: true, Entry: intended,
			Actual: container.Created}, want: Start},
		{name: "to pause", facts: Facts{Desired: pause, Journaled: true, Entry: bound, Actual: container.Running},
			want: Switch},
		{name: "told to pause", facts: Facts{Desired: pause, Journaled: true, Entry: bound, Actual: container.Running,
			Switch: asked}, want: None},
		{name: "paused", facts: Facts{Desired: pause, Journaled: true, Entry: bound, Actual: container.Running,
			Switch: paused}, want: Yield},
		{name: "paused without cores", facts: Facts{Desired: pause, Journaled: true, Entry: started,
			Actual: container.Running, Switch: paused}, want: None},
		{name: "to go on", facts: Facts{Desired: goOn, Journaled: true, Entry: started, Actual: container.Running,
			Switch: paused}, want: Switch},
		{name: "to go on, with cores from before a crash", facts: Facts{Desired: goOn, Journaled: true, Entry: bound,
			Actual: container.Running, Switch: paused}, want: Switch},
		{name: "a pause that is taken back", facts: Facts{Desired: goOn, Journaled: true, Entry: bound,
			Actual: container.Running, Switch: asked}, want: Switch},
		{name: "stop while it is paused", facts: Facts{Desired: stopPaused, KillAt: later, Journaled: true, Entry: started,
			Actual: container.Running, Switch: paused}, want: Stop, again: later},
		{name: "it has run, and this node knows nothing of it", facts: Facts{Desired: lost}, want: Finish,
			state: model.WorkerFailed},
		{name: "the same, while it is to stop", facts: Facts{Desired: lostStopping, KillAt: later}, want: Finish,
			state: model.WorkerFailed},
		{name: "its shim has not answered yet", facts: Facts{Desired: released, Journaled: true, Entry: started,
			Actual: container.Silent}, want: None},
		{name: "the same, its start was not written down", facts: Facts{Desired: released, Journaled: true, Entry: intended,
			Actual: container.Silent}, want: None},
		{name: "the same, while it is to stop", facts: Facts{Desired: stopping, KillAt: later, Journaled: true,
			Entry: started, Actual: container.Silent}, want: Stop, again: later},
		{name: "the same, after its grace", facts: Facts{Desired: stopping, KillAt: now, Journaled: true, Entry: started,
			Actual: container.Silent}, want: Kill},
		{name: "the same, not wanted", facts: Facts{Journaled: true, Entry: started, Actual: container.Silent}, want: Kill},
		{name: "the same, over", facts: Facts{Desired: released, Journaled: true, Entry: over, Actual: container.Silent},
			want: Kill},
		{name: "the lease of a silent shim is over", facts: Facts{DesiredUnknown: true, Journaled: true, Entry: started,
			Actual: container.Running, LeaseOver: true}, want: Kill},
		{name: "nothing at all", facts: Facts{}, want: None},
		{name: "over, not confirmed", facts: Facts{Journaled: true, Entry: over, Actual: container.Exited},
			want: None},
		{name: "over, still asked for", facts: Facts{Desired: released, Journaled: true, Entry: over,
			Actual: container.Exited, Confirmed: true}, want: None},
		{name: "over, asked for again after removal", facts: Facts{Desired: released, Journaled: true, Entry: over},
			want: None},
		{name: "over and confirmed", facts: Facts{Journaled: true, Entry: over, Actual: container.Exited,
			Confirmed: true}, want: Remove},
		{name: "over but something runs", facts: Facts{Desired: released, Journaled: true, Entry: over,
			Actual: container.Created}, want: Kill},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, again := Next(&test.facts, now)
			if began := test.facts.Began() && test.state == model.WorkerFailed; got.Result.Began != began {
				t.Errorf("its command may have begun: got %v, want %v", got.Result.Began, began)
			}
			if got.Kind != test.want || got.Result.State != test.state || !again.Equal(test.again) {
				t.Fatalf("got %q with %q, again %v; want %q with %q, again %v", got.Kind, got.Result.State, again,
					test.want, test.state, test.again)
			}
		})
	}
}

func TestReportable(t *testing.T) {
	gang, single := &api.Alloc{}, &api.Alloc{Released: true}
	tests := []struct {
		name  string
		facts Facts
		want  model.WorkerState
	}{
		{"nothing", Facts{Desired: gang}, ""},
		{"gang worker created", Facts{Desired: gang, Actual: container.Created}, model.WorkerCreated},
		{"single worker created", Facts{Desired: single, Actual: container.Created}, ""},
		{"running", Facts{Desired: single, Actual: container.Running}, model.WorkerRunning},
		{"exited, not written down", Facts{Desired: single, Actual: container.Exited}, ""},
		{"written down", Facts{Actual: container.Exited,
			Entry: journal.Entry{Final: &model.WorkerReport{State: model.WorkerFailed}}}, model.WorkerFailed},
	}
	for _, test := range tests {
		if got := Reportable(&test.facts); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestExcess(t *testing.T) {
	now := time.Unix(1000, 0)
	until := func(d time.Duration) Excess { return Excess{Message: "much", Until: now.Add(d)} }
	evicted := journal.Entry{ID: "1.1.0", Started: true, Stopped: CauseGPUMemory}
	for name, c := range map[string]struct {
		facts Facts
		want  Kind
	}{
		"within":                         {Facts{}, None},
		"over":                           {Facts{Excess: until(1)}, Warn},
		"over, and told":                 {Facts{Excess: until(1), Warned: true}, None},
		"within again":                   {Facts{Warned: true}, Warn},
		"grace over":                     {Facts{Excess: until(0), Warned: true}, Evict},
		"grace over before it was told":  {Facts{Excess: until(0)}, Evict},
		"written down":                   {Facts{Excess: until(0), Warned: true, Entry: evicted}, Kill},
		"written down by another daemon": {Facts{DesiredUnknown: true, Entry: evicted}, Kill},
	} {
		if s := excessAction(&c.facts, now); s.Kind != c.want {
			t.Errorf("%s: %q, want %q", name, s.Kind, c.want)
		}
		f := c.facts
		f.Actual = container.Running
		if s, _ := Next(&f, now); c.want != None && s.Kind != c.want {
			t.Errorf("%s: next is %q, want %q", name, s.Kind, c.want)
		}
	}
	for _, exit := range []container.Exit{{Code: 3}, {Signal: 15}} { // it ended before the kill
		s, _ := Next(&Facts{Entry: evicted, Actual: container.Exited, Exit: &exit}, now)
		if s.Result.OOM || s.Result.Why != "" {
			t.Errorf("%+v: %+v", exit, s.Result)
		}
	}
	s, _ := Next(&Facts{Entry: evicted, Actual: container.Exited, Exit: &container.Exit{Signal: 9}}, now)
	if !s.Result.OOM || s.Result.Why != "it used more GPU memory than it declared" {
		t.Errorf("another daemon reports %+v", s.Result)
	}
}

// TestAReasonOfALoss notices a report of a lost container that does not say what is known of it.
func TestAReasonOfALoss(t *testing.T) {
	for want, f := range map[string]Facts{
		"its shim was lost":                                {Actual: container.Lost},
		"its shim was lost: no space":                      {Actual: container.Lost, LostReason: "no space"},
		"its container disappeared without an exit record": {Entry: journal.Entry{Started: true}},
	} {
		got := recordLost(&f)
		if got.Kind != Finish || got.Result.Message != want || got.Result.State != model.WorkerFailed ||
			got.Result.Began != f.Entry.Started {
			t.Errorf("%+v: %+v", f, got)
		}
	}
}

// TestWhatAnExitRecordSaysIsReported notices a field that the report of a worker loses: without Lease
// the controllers take the end for the job's own.
func TestWhatAnExitRecordSaysIsReported(t *testing.T) {
	e := &container.Exit{Code: 3, Signal: 9, OOM: true, Lease: true, Why: "its task ended"}
	want := model.WorkerReport{State: model.WorkerExited, ExitCode: 3, Signal: 9, OOM: true, Lease: true,
		Why: "its task ended"}
	for _, began := range []bool{true, false} {
		want.Unbegun = !began
		if got := exitReport(e, began); got != want {
			t.Errorf("got %+v", got)
		}
		if got := exitReport(nil, began); got.State != model.WorkerFailed || got.Began != began {
			t.Errorf("without a record: %+v", got)
		}
	}
}
