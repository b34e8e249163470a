package noded

import (
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

func TestNextStep(t *testing.T) {
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
		facts facts
		want  op
		state model.WorkerState // of the result
		again time.Time
	}{
		{name: "wanted, nothing there", facts: facts{Desired: wait}, want: opCreate},
		{name: "cannot be read, nothing there", facts: facts{Unread: "no such word"}, want: opFinish,
			state: model.WorkerFailed},
		{name: "cannot be read, intent survived a crash",
			facts: facts{Unread: "no such word", Journaled: true, Entry: intended},
			want:  opForget},
		{name: "cannot be read, runs", facts: facts{Unread: "no such word", Journaled: true, Entry: started,
			Actual: container.Running}, want: opNone},
		{name: "cannot be read, runs and has a stop", facts: facts{Unread: "no such word", Desired: stopping, KillAt: later,
			Journaled: true, Entry: started, Actual: container.Running}, want: opStop, again: later},
		{name: "wanted, intent survived a crash", facts: facts{Desired: wait, Journaled: true, Entry: intended},
			want: opCreate},
		{name: "wanted, earlier attempt still runs", facts: facts{Desired: wait, Blocked: true}, want: opNone},
		{name: "created, gang incomplete", facts: facts{Desired: wait, Journaled: true, Entry: intended,
			Actual: container.Created}, want: opNone},
		{name: "created and released", facts: facts{Desired: released, Journaled: true, Entry: intended,
			Actual: container.Created}, want: opStart},
		{name: "start written down but not done", facts: facts{Desired: released, Journaled: true, Entry: started,
			Actual: container.Created}, want: opStart},
		{name: "runs", facts: facts{Desired: released, Journaled: true, Entry: started, Actual: container.Running},
			want: opNone},
		{name: "gone after its start", facts: facts{Desired: released, Journaled: true, Entry: started}, want: opFinish,
			state: model.WorkerFailed},
		{name: "shim lost", facts: facts{Desired: released, Journaled: true, Entry: started, Actual: container.Lost},
			want: opFinish, state: model.WorkerFailed},
		{name: "exited", facts: facts{Desired: released, Journaled: true, Entry: started, Actual: container.Exited,
			Exit: &container.Exit{Code: 3}},
			want: opFinish, state: model.WorkerExited},
		{name: "exited, record unreadable", facts: facts{Desired: released, Journaled: true, Entry: started,
			Actual: container.Exited},
			want: opFinish, state: model.WorkerFailed},
		{name: "holds room, its steps are to stop", facts: facts{Desired: holding, KillAt: later, Journaled: true,
			Entry: started, Actual: container.Running, Steps: 1}, want: opStop, again: later},
		{name: "holds room, its steps were told", facts: facts{Desired: holding, KillAt: later, Journaled: true,
			Entry: told, Actual: container.Running, Steps: 1}, want: opNone, again: later},
		{name: "holds room, its steps have ended", facts: facts{Desired: holding, KillAt: later, Journaled: true,
			Entry: told, Actual: container.Running}, want: opLeave, again: later},
		{name: "holds room, its steps do not end", facts: facts{Desired: holding, KillAt: now, Journaled: true,
			Entry: told, Actual: container.Running, Steps: 1}, want: opKill},
		{name: "starts steps that have ended", facts: facts{Desired: starting, KillAt: later, Journaled: true,
			Entry: told, Actual: container.Running}, want: opNone, again: later},
		{name: "stop before anything", facts: facts{Desired: stopping, KillAt: later}, want: opFinish,
			state: model.WorkerExited},
		{name: "stop before start", facts: facts{Desired: stopping, KillAt: later, Journaled: true, Entry: intended,
			Actual: container.Created}, want: opKill},
		{name: "stop", facts: facts{Desired: stopping, KillAt: later, Journaled: true, Entry: started,
			Actual: container.Running}, want: opStop, again: later},
		{name: "stop, told already", facts: facts{Desired: stopping, KillAt: later, Journaled: true, Entry: told,
			Actual: container.Running}, want: opNone, again: later},
		{name: "stop for a stronger cause", facts: facts{Desired: stopping, KillAt: later, Journaled: true,
			Entry: displaced, Actual: container.Running}, want: opStop, again: later},
		{name: "grace over", facts: facts{Desired: stopping, KillAt: now, Journaled: true, Entry: told,
			Actual: container.Running}, want: opKill},
		{name: "grace over before it was told", facts: facts{Desired: stopping, KillAt: now, Journaled: true,
			Entry: started, Actual: container.Running}, want: opKill},
		{name: "gone while it was to stop", facts: facts{Desired: stopping, KillAt: later, Journaled: true,
			Entry: told}, want: opFinish, state: model.WorkerFailed},
		{name: "unwanted and running", facts: facts{Journaled: true, Entry: started, Actual: container.Running},
			want: opKill},
		{name: "unwanted and unknown", facts: facts{Actual: container.Running}, want: opKill},
		{name: "no controller has said what is wanted",
			facts: facts{DesiredUnknown: true, Journaled: true, Entry: started, Actual: container.Running},
			want:  opNone},
		{name: "unwanted before it was made", facts: facts{Journaled: true, Entry: intended}, want: opForget},
		{name: "unwanted and gone", facts: facts{Journaled: true, Entry: started}, want: opFinish,
			state: model.WorkerFailed},
		{name: "to pause before the start", facts: facts{Desired: pause, Journaled: true, Entry: intended,
			Actual: container.Created}, want: opStart},
		{name: "to pause", facts: facts{Desired: pause, Journaled: true, Entry: bound, Actual: container.Running},
			want: opSwitch},
		{name: "told to pause", facts: facts{Desired: pause, Journaled: true, Entry: bound, Actual: container.Running,
			Switch: asked}, want: opNone},
		{name: "paused", facts: facts{Desired: pause, Journaled: true, Entry: bound, Actual: container.Running,
			Switch: paused}, want: opYield},
		{name: "paused without cores", facts: facts{Desired: pause, Journaled: true, Entry: started,
			Actual: container.Running, Switch: paused}, want: opNone},
		{name: "to go on", facts: facts{Desired: goOn, Journaled: true, Entry: started, Actual: container.Running,
			Switch: paused}, want: opSwitch},
		{name: "to go on, with cores from before a crash", facts: facts{Desired: goOn, Journaled: true, Entry: bound,
			Actual: container.Running, Switch: paused}, want: opSwitch},
		{name: "a pause that is taken back", facts: facts{Desired: goOn, Journaled: true, Entry: bound,
			Actual: container.Running, Switch: asked}, want: opSwitch},
		{name: "stop while it is paused", facts: facts{Desired: stopPaused, KillAt: later, Journaled: true, Entry: started,
			Actual: container.Running, Switch: paused}, want: opStop, again: later},
		{name: "it has run, and this node knows nothing of it", facts: facts{Desired: lost}, want: opFinish,
			state: model.WorkerFailed},
		{name: "the same, while it is to stop", facts: facts{Desired: lostStopping, KillAt: later}, want: opFinish,
			state: model.WorkerFailed},
		{name: "its shim has not answered yet", facts: facts{Desired: released, Journaled: true, Entry: started,
			Actual: container.Silent}, want: opNone},
		{name: "the same, its start was not written down", facts: facts{Desired: released, Journaled: true, Entry: intended,
			Actual: container.Silent}, want: opNone},
		{name: "the same, while it is to stop", facts: facts{Desired: stopping, KillAt: later, Journaled: true,
			Entry: started, Actual: container.Silent}, want: opStop, again: later},
		{name: "the same, after its grace", facts: facts{Desired: stopping, KillAt: now, Journaled: true, Entry: started,
			Actual: container.Silent}, want: opKill},
		{name: "the same, not wanted", facts: facts{Journaled: true, Entry: started, Actual: container.Silent}, want: opKill},
		{name: "the same, over", facts: facts{Desired: released, Journaled: true, Entry: over, Actual: container.Silent},
			want: opKill},
		{name: "the lease of a silent shim is over", facts: facts{DesiredUnknown: true, Journaled: true, Entry: started,
			Actual: container.Running, LeaseOver: true}, want: opKill},
		{name: "nothing at all", facts: facts{}, want: opNone},
		{name: "over, not confirmed", facts: facts{Journaled: true, Entry: over, Actual: container.Exited},
			want: opNone},
		{name: "over, still asked for", facts: facts{Desired: released, Journaled: true, Entry: over,
			Actual: container.Exited, Confirmed: true}, want: opNone},
		{name: "over, asked for again after removal", facts: facts{Desired: released, Journaled: true, Entry: over},
			want: opNone},
		{name: "over and confirmed", facts: facts{Journaled: true, Entry: over, Actual: container.Exited,
			Confirmed: true}, want: opRemove},
		{name: "over but something runs", facts: facts{Desired: released, Journaled: true, Entry: over,
			Actual: container.Created}, want: opKill},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, again := nextStep(test.facts, now)
			if began := test.facts.began() && test.state == model.WorkerFailed; got.Result.Began != began {
				t.Errorf("its command may have begun: got %v, want %v", got.Result.Began, began)
			}
			if got.Op != test.want || got.Result.State != test.state || !again.Equal(test.again) {
				t.Fatalf("got %q with %q, again %v; want %q with %q, again %v", got.Op, got.Result.State, again,
					test.want, test.state, test.again)
			}
		})
	}
}

func TestReportableState(t *testing.T) {
	gang, single := &api.Alloc{}, &api.Alloc{Released: true}
	tests := []struct {
		name  string
		facts facts
		want  model.WorkerState
	}{
		{"nothing", facts{Desired: gang}, ""},
		{"gang worker created", facts{Desired: gang, Actual: container.Created}, model.WorkerCreated},
		{"single worker created", facts{Desired: single, Actual: container.Created}, ""},
		{"running", facts{Desired: single, Actual: container.Running}, model.WorkerRunning},
		{"exited, not written down", facts{Desired: single, Actual: container.Exited}, ""},
		{"written down", facts{Actual: container.Exited,
			Entry: journal.Entry{Final: &model.WorkerReport{State: model.WorkerFailed}}}, model.WorkerFailed},
	}
	for _, test := range tests {
		if got := reportableState(test.facts); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNoticeReasons(t *testing.T) {
	for cause, want := range map[model.Cause]string{
		model.CauseTE: "preempt", model.CauseReclaim: "preempt", model.CauseOrder: "preempt",
		model.CauseRequeue: "preempt",
		model.CauseShrink:  "shrink", model.CauseGrow: "grow", model.CauseMigrate: "migrate",
		model.CauseDrain:   "drain",
		model.CauseTimeout: "timeout", model.CauseCancelled: "cancel", model.CauseLease: "lease",
	} {
		if got := noticeReason(cause); got != want {
			t.Errorf("%s: got %q, want %q", cause, got, want)
		}
	}
}
