package lifecycle

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// spec is a job of one group of so many workers, with a checkpoint block if it has a code for it.
func spec(workers int, edit ...func(*jobspec.Job)) *jobspec.Job {
	s := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Count: workers, Tasks: []jobspec.Task{{
		Command: []string{"true"}}}}}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func checkpoint(code int) func(*jobspec.Job) {
	return func(s *jobspec.Job) { s.Checkpoint = &jobspec.Checkpoint{ExitCode: code} }
}

// worker is a final worker of node n1 that ended at an instant.
func worker(at model.Instant, edit ...func(*model.Worker)) model.Worker {
	w := model.Worker{Place: model.Place{Node: "n1"}, State: model.WorkerExited, Started: 1, Ended: at}
	for _, e := range edit {
		e(&w)
	}
	return w
}

func code(n int) func(*model.Worker)     { return func(w *model.Worker) { w.ExitCode = n } }
func signal(n int) func(*model.Worker)   { return func(w *model.Worker) { w.Signal = n } }
func on(node string) func(*model.Worker) { return func(w *model.Worker) { w.Node = node } }
func oom(w *model.Worker)                { w.OOM = true }
func leased(w *model.Worker)             { w.Lease = true }
func own(w *model.Worker)                { w.Own = true }
func unbegun(w *model.Worker)            { w.Unbegun, w.Started = true, 0 }

// unlaunched is a worker whose command never began; lost one that began, and whose shim is gone.
func unlaunched(w *model.Worker) { w.State, w.Started, w.Message = model.WorkerFailed, 0, "no image" }
func lost(w *model.Worker)       { w.State, w.Message = model.WorkerFailed, "shim lost" }

// TestOutcomes goes through how attempts end: the cause that is counted against the job, and the
// exit code and the signal that stand for it.
func TestOutcomes(t *testing.T) {
	stop := func(cause model.Cause, at model.Instant) *model.Stop { return &model.Stop{Cause: cause, At: at} }
	for _, c := range []struct {
		name    string
		spec    *jobspec.Job
		workers []model.Worker
		stop    *model.Stop
		want    Outcome
	}{
		{"all went well", spec(2), []model.Worker{worker(5), worker(6)}, nil, Outcome{Cause: model.CauseCompleted}},
		{"one failed", spec(2), []model.Worker{worker(5, code(3), on("n2")), worker(6)}, nil,
			Outcome{Cause: model.CauseFailed, Code: 3, Nodes: []string{"n2"}}},
		{"the highest code and signal stand for all", spec(3),
			[]model.Worker{worker(5, code(3)), worker(5, code(7), on("n2")), worker(5, signal(11), on("n3"))}, nil,
			Outcome{Cause: model.CauseFailed, Code: 7, Signal: 11, Nodes: []string{"n1", "n2", "n3"}}},
		{"what ends after the stop is its consequence", spec(3),
			[]model.Worker{worker(5, code(3)), worker(6, signal(15), on("n2")), worker(5, on("n3"))},
			stop(model.CauseFailed, 5), Outcome{Cause: model.CauseFailed, Code: 3, Nodes: []string{"n1"}}},
		{"all ended after the stop", spec(1), []model.Worker{worker(6, signal(15))}, stop(model.CauseTE, 5),
			Outcome{Cause: model.CauseTE, Signal: 15}},
		{"it was done before the stop", spec(1), []model.Worker{worker(6)}, stop(model.CauseTE, 5),
			Outcome{Cause: model.CauseCompleted}},
		{"it was done before the signal came", spec(1, checkpoint(0)), []model.Worker{worker(6, own)},
			stop(model.CauseTE, 5), Outcome{Cause: model.CauseCompleted}},
		{"before the cancellation came", spec(1), []model.Worker{worker(6, own)}, stop(model.CauseCancelled, 5),
			Outcome{Cause: model.CauseCompleted}},
		{"it saved and exited with 0", spec(1, checkpoint(0)), []model.Worker{worker(6)}, stop(model.CauseTE, 5),
			Outcome{Cause: model.CauseTE}},
		{"it saved when its gang had lost a node", spec(2, checkpoint(0), func(s *jobspec.Job) {
			s.Groups[0].Success = model.SuccessLeader
		}), []model.Worker{worker(6), worker(6, lost)}, stop(model.CauseNodeLost, 5), Outcome{Cause: model.CauseNodeLost,
			Message: "shim lost", Nodes: []string{"n1"}}},
		{"never executed", spec(1), []model.Worker{worker(6, unbegun)}, stop(model.CauseTE, 5),
			Outcome{Cause: model.CauseTE}},
		{"never executed, and cancelled", spec(1), []model.Worker{worker(6, unbegun, signal(15))},
			stop(model.CauseCancelled, 5), Outcome{Cause: model.CauseCancelled, Signal: 15}},
		{"never executed at its deadline", spec(1), []model.Worker{worker(6, unbegun)}, stop(model.CauseTimeout, 5),
			Outcome{Cause: model.CauseTimeout}},
		{"it failed before the signal came", spec(1), []model.Worker{worker(6, own, code(3))}, stop(model.CauseTE, 5),
			Outcome{Cause: model.CauseFailed, Code: 3, Nodes: []string{"n1"}}},
		{"it failed before the cancellation came", spec(1), []model.Worker{worker(6, own, code(3))},
			stop(model.CauseCancelled, 5), Outcome{Cause: model.CauseFailed, Code: 3, Nodes: []string{"n1"}, Over: true}},
		{"it asked to be requeued before the cancellation came", spec(1, checkpoint(0)),
			[]model.Worker{worker(6, own, code(85))}, stop(model.CauseCancelled, 5),
			Outcome{Cause: model.CauseCancelled, Code: 85, Nodes: []string{"n1"}}},
		{"it asked to be requeued before the signal came", spec(1), []model.Worker{worker(6, own, code(85))},
			stop(model.CauseTE, 5), Outcome{Cause: model.CauseRequeue, Code: 85, Checkpoint: true, Nodes: []string{"n1"}}},
		{"one of a gang failed before the signal came", spec(2), []model.Worker{worker(6, own, code(3)),
			worker(7, signal(15), on("n2"))}, stop(model.CauseTE, 5),
			Outcome{Cause: model.CauseFailed, Code: 3, Nodes: []string{"n1"}}},
		{"one of a gang failed after another had heard the signal", spec(2), []model.Worker{worker(7, own, code(3)),
			worker(6, signal(15), on("n2"))}, stop(model.CauseTE, 5), Outcome{Cause: model.CauseTE, Code: 3}},
		{"at its time limit it was done", spec(1), []model.Worker{worker(6, own)}, stop(model.CauseTimeout, 5),
			Outcome{Cause: model.CauseCompleted}},
		{"cancelled, however politely it went", spec(1), []model.Worker{worker(6)}, stop(model.CauseCancelled, 5),
			Outcome{Cause: model.CauseCancelled}},
		{"requeued, however politely it went", spec(1), []model.Worker{worker(6)}, stop(model.CauseRequeue, 5),
			Outcome{Cause: model.CauseRequeue}},
		{"at its time limit, however politely it went", spec(1), []model.Worker{worker(6)}, stop(model.CauseTimeout, 5),
			Outcome{Cause: model.CauseTimeout}},
		{"its node was lost", spec(1), []model.Worker{worker(6, lost)}, stop(model.CauseNodeLost, 5),
			Outcome{Cause: model.CauseNodeLost, Nodes: []string{"n1"}, Message: "shim lost"}},
		{"its lease ended, as the stop says", spec(1), []model.Worker{worker(6, signal(9))}, stop(model.CauseLease, 5),
			Outcome{Cause: model.CauseLease, Signal: 9}},
		{"its lease ended, as a worker says", spec(2), []model.Worker{worker(6, signal(9), leased), worker(6)}, nil,
			Outcome{Cause: model.CauseLease, Signal: 9}},
		{"killed for want of memory", spec(2), []model.Worker{worker(5, signal(9), oom), worker(5, code(1))}, nil,
			Outcome{Cause: model.CauseOOM, Code: 1, Signal: 9, Nodes: []string{"n1", "n1"}}},
		{"a process was killed for want of memory, and the script went on", spec(1),
			[]model.Worker{worker(5, oom, func(w *model.Worker) { w.Why = "the kernel killed tail" })}, nil,
			Outcome{Cause: model.CauseOOM, Nodes: []string{"n1"}, Message: "the kernel killed tail"}},
		{"one of two was killed for want of memory, and says so", spec(2), []model.Worker{worker(5, code(2),
			func(w *model.Worker) { w.Why = "its sidecar ended" }),
			worker(5, oom, func(w *model.Worker) { w.Why = "the kernel killed tail" })}, nil,
			Outcome{Cause: model.CauseOOM, Code: 2, Nodes: []string{"n1", "n1"}, Message: "the kernel killed tail"}},
		{"cancelled, and killed for want of memory", spec(1), []model.Worker{worker(6, oom)}, stop(model.CauseCancelled, 5),
			Outcome{Cause: model.CauseCancelled}},
		{"at its time limit, and killed for want of memory", spec(1), []model.Worker{worker(6, oom)},
			stop(model.CauseTimeout, 5), Outcome{Cause: model.CauseTimeout}},
		{"it asks for more at its time limit, and something was killed before", spec(1, checkpoint(0)),
			[]model.Worker{worker(6, code(85), oom)}, stop(model.CauseTimeout, 5),
			Outcome{Cause: model.CauseRequeue, Code: 85, Checkpoint: true}},
		{"a launch failure comes before lack of memory", spec(2),
			[]model.Worker{worker(5, unlaunched), worker(5, signal(9), oom)}, nil,
			Outcome{Cause: model.CauseLaunch, Signal: 9, Nodes: []string{"n1", "n1"}, Message: "no image"}},
		{"a launch failure for good", spec(2), []model.Worker{worker(5, unlaunched, func(w *model.Worker) {
			w.LaunchFinal = true
		}), worker(5, unlaunched)}, nil,
			Outcome{Cause: model.CauseLaunch, Nodes: []string{"n1", "n1"}, Message: "no image", Final: true}},
		{"a shim that is gone is not the job's fault", spec(1), []model.Worker{worker(5, lost)}, nil,
			Outcome{Cause: model.CauseNodeLost, Nodes: []string{"n1"}, Message: "shim lost"}},
		{"a task that is no main one ended it", spec(1), []model.Worker{worker(5, code(2), func(w *model.Worker) {
			w.Why = "sidecar proxy"
		})}, nil, Outcome{Cause: model.CauseFailed, Code: 2, Nodes: []string{"n1"}, Message: "sidecar proxy"}},
		{"it asks to be requeued", spec(2, checkpoint(0)), []model.Worker{worker(5, code(85)), worker(5, code(85))}, nil,
			Outcome{Cause: model.CauseRequeue, Code: 85, Checkpoint: true, Nodes: []string{"n1", "n1"}}},
		{"by a code of its own", spec(1, checkpoint(99)), []model.Worker{worker(5, code(99))}, nil,
			Outcome{Cause: model.CauseRequeue, Code: 99, Checkpoint: true, Nodes: []string{"n1"}}},
		{"not with another code", spec(1, checkpoint(99)), []model.Worker{worker(5, code(85))}, nil,
			Outcome{Cause: model.CauseFailed, Code: 85, Nodes: []string{"n1"}}},
		{"not if one failed otherwise", spec(2, checkpoint(0)), []model.Worker{worker(5, code(85)), worker(5, code(1))}, nil,
			Outcome{Cause: model.CauseFailed, Code: 85, Nodes: []string{"n1", "n1"}}},
		{"not by a signal", spec(1, checkpoint(0)), []model.Worker{worker(5, code(85), signal(9))}, nil,
			Outcome{Cause: model.CauseFailed, Code: 85, Signal: 9, Nodes: []string{"n1"}}},
		{"not for want of memory", spec(1, checkpoint(0)), []model.Worker{worker(5, code(85), oom)}, nil,
			Outcome{Cause: model.CauseOOM, Code: 85, Nodes: []string{"n1"}}},
		{"not without a checkpoint block", spec(1), []model.Worker{worker(5, code(85))}, nil,
			Outcome{Cause: model.CauseFailed, Code: 85, Nodes: []string{"n1"}}},
		{"not because its gang was stopped for that", spec(2), []model.Worker{worker(5, code(85)), worker(6, own, code(85))},
			stop(model.CauseFailed, 5), Outcome{Cause: model.CauseFailed, Code: 85, Nodes: []string{"n1"}}},
		{"nothing ended before the stop for a failure", spec(1, checkpoint(0)), []model.Worker{worker(6, code(85))},
			stop(model.CauseFailed, 5), Outcome{Cause: model.CauseFailed, Code: 85}},
		{"a failed worker is more than a preemption", spec(1), []model.Worker{worker(5, code(4))},
			stop(model.CauseFailed, 5), Outcome{Cause: model.CauseFailed, Code: 4, Nodes: []string{"n1"}}},
	} {
		j := &model.Job{Spec: c.spec, Workers: len(c.workers)}
		got := OutcomeOf(j, &model.Attempt{Workers: c.workers, Stop: c.stop})
		got.Rule = "" // of TestRules
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// TestPoliciesDecide has a log policy find something in the output of an attempt.
func TestPoliciesDecide(t *testing.T) {
	const line = "Xid 79"
	policy := func(action string) *jobspec.Job {
		return spec(1, func(s *jobspec.Job) {
			s.LogPolicies = []jobspec.LogPolicy{{Name: "other"}, {Name: "gpu", Action: action}}
		})
	}
	const text = "log_policy gpu: " + line
	for _, c := range []struct {
		name   string
		action string
		cause  model.Cause // of the stop
		acts   bool
		worker model.Worker
		want   Outcome
	}{
		{"exclude its node", model.PolicyExclude, model.CauseRequeue, true, worker(6, signal(15)),
			Outcome{Cause: model.CauseRequeue, Signal: 15, Checkpoint: true, Message: text, policy: model.PolicyExclude}},
		{"exclude, but it was done", model.PolicyExclude, model.CauseRequeue, true, worker(6),
			Outcome{Cause: model.CauseCompleted}},
		{"fail", model.PolicyFail, model.CauseFailed, true, worker(6, signal(15)),
			Outcome{Cause: model.CauseFailed, Signal: 15, Message: text, policy: model.PolicyFail}},
		{"fail, although it ended with 0", model.PolicyFail, model.CauseFailed, true, worker(6),
			Outcome{Cause: model.CauseFailed, Code: 1, Message: text, policy: model.PolicyFail}},
		{"restart", model.PolicyRestart, model.CauseFailed, true, worker(6, code(3)),
			Outcome{Cause: model.CauseFailed, Code: 3, Message: text, policy: model.PolicyRestart}},
		{"something stronger came after it", model.PolicyFail, model.CauseCancelled, true, worker(6, signal(15)),
			Outcome{Cause: model.CauseCancelled, Signal: 15}},
		{"it decided nothing", model.PolicyFail, model.CauseFailed, false, worker(6),
			Outcome{Cause: model.CauseCompleted}},
	} {
		j := &model.Job{Spec: policy(c.action), Workers: 1}
		a := &model.Attempt{Workers: []model.Worker{c.worker}, Stop: &model.Stop{Cause: c.cause, At: 5},
			Findings: []model.Finding{{Policy: "none", Acts: true}, {Policy: "gpu", Line: line, Acts: c.acts}}}
		got := OutcomeOf(j, a)
		if got.Rule = ""; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
	if p := PolicyNamed(policy(model.PolicyFail), "gpu"); p == nil || p.Action != model.PolicyFail {
		t.Errorf("the policy gpu is %+v", p)
	}
	if p := PolicyNamed(policy(model.PolicyFail), "none"); p != nil {
		t.Errorf("a policy that there is not: %+v", p)
	}
}

// TestStrength compares each cause with each other. Their order is: resizes, giving room to others,
// ends of its own, losses and time limits, and cancelling.
func TestStrength(t *testing.T) {
	order := [][]model.Cause{
		{model.CauseGrow, model.CauseShrink, model.CauseMigrate},
		{model.CauseDrain, model.CauseOrder, model.CauseReclaim, model.CauseTE, model.CauseRequeue},
		{model.CauseCompleted, model.CauseFailed, model.CauseOOM, model.CauseLaunch},
		{model.CauseLease, model.CauseNodeLost, model.CauseTimeout},
		{model.CauseCancelled},
	}
	for x, weaker := range order {
		for y, stronger := range order {
			for _, a := range weaker {
				for _, b := range stronger {
					want := a
					if y > x {
						want = b
					}
					if got := StrongerCause(a, b); got != want {
						t.Errorf("of %s and %s the stronger is %s", a, b, got)
					}
					if got := Outranks(b, &model.Stop{Cause: a}); got != (y > x) {
						t.Errorf("%s replaces a stop for %s: %t", b, a, got)
					}
					// any stop in progress, and trouble in one worker
					rest := y > x && b == model.CauseLease
					if got := StopsRest(&model.Attempt{Stop: &model.Stop{Cause: a}}, b); got != rest {
						t.Errorf("trouble %s stops the rest of an attempt that is stopped for %s: %t", b, a, got)
					}
				}
			}
		}
	}
	if !Outranks(model.CauseGrow, nil) || !StopsRest(&model.Attempt{}, model.CauseFailed) ||
		StopsRest(&model.Attempt{}, "") || StopsRest(&model.Attempt{Stop: &model.Stop{}}, "") {
		t.Error("of an attempt that is not stopped, or without trouble")
	}
}

// TestSignalAndGrace holds how a job is stopped to the table of contracts.
func TestSignalAndGrace(t *testing.T) {
	yes, no := true, false
	plain := jobspec.Task{}
	own := jobspec.Task{KillSignal: "SIGINT", KillTimeout: 7}
	slurm := jobspec.Task{Launch: &jobspec.Launch{Type: "slurm"}}
	shell := jobspec.Task{Launch: &jobspec.Launch{Type: "shell"}}
	side := jobspec.Task{KillSignal: "SIGQUIT", Lifecycle: &jobspec.Lifecycle{}}
	preempted := &jobspec.Preemption{Signal: "SIGUSR2", GracePeriod: 90}
	led, follows := own, plain
	led.Leader, follows.Leader = &yes, &no
	away := []model.Cause{model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow,
		model.CauseMigrate, model.CauseDrain, model.CauseRequeue}
	ended := []model.Cause{model.CauseCancelled, model.CauseTimeout, model.CauseFailed}
	for _, c := range []struct {
		name       string
		causes     []model.Cause
		preemption *jobspec.Preemption
		tasks      []jobspec.Task
		signal     string
		grace      jobspec.Seconds
	}{
		{"for others", away, nil, []jobspec.Task{plain}, "SIGTERM", 30},
		{"for others, whatever its task says", away, nil, []jobspec.Task{own}, "SIGTERM", 30},
		{"for others, with a preemption block", away, preempted, []jobspec.Task{own}, "SIGUSR2", 90},
		{"for others, with half a block", away, &jobspec.Preemption{GracePeriod: 5}, []jobspec.Task{own}, "SIGTERM", 5},
		{"for others, by another half", away, &jobspec.Preemption{Signal: "SIGHUP"}, []jobspec.Task{own}, "SIGHUP", 30},
		{"for others, without grace", away, &jobspec.Preemption{GracePeriod: -1}, []jobspec.Task{own}, "SIGTERM", 0},
		{"for others, under slurm", away, nil, []jobspec.Task{slurm}, "SIGUSR1", 30},
		{"for others, by another launcher", away, nil, []jobspec.Task{shell}, "SIGTERM", 30},
		{"to end", ended, preempted, []jobspec.Task{plain}, "SIGTERM", 30},
		{"to end, as its task says", ended, preempted, []jobspec.Task{own}, "SIGINT", 7},
		{"to end, as its first task says", ended, nil, []jobspec.Task{own, plain}, "SIGINT", 7},
		{"to end, as its main task says", ended, nil, []jobspec.Task{side, own, plain}, "SIGINT", 7},
		{"to end, as its leader says", ended, nil, []jobspec.Task{plain, follows, led}, "SIGINT", 7},
		{"to end, if none is a main one", ended, nil, []jobspec.Task{side}, "SIGQUIT", 30},
		{"by its lease", []model.Cause{model.CauseLease}, preempted, []jobspec.Task{own}, "SIGINT", 10},
	} {
		for _, cause := range c.causes {
			s := &jobspec.Job{Preemption: c.preemption}
			signal, grace := StopSignalAndGrace(s, &jobspec.Group{Tasks: c.tasks}, cause)
			if signal != c.signal || grace != c.grace {
				t.Errorf("%s (%s): %s and %d s, want %s and %d s", c.name, cause, signal, grace, c.signal, c.grace)
			}
		}
	}
}

// TestRetries goes through restart blocks: how many failures in what window, and which exits count.
func TestRetries(t *testing.T) {
	const day = 24 * 3600 * 1000
	failed := func(code int) Outcome { return Outcome{Cause: model.CauseFailed, Code: code} }
	for _, c := range []struct {
		name    string
		restart *jobspec.Restart
		before  []model.Instant // failures
		at      model.Instant
		outcome Outcome
		again   bool
		kept    []model.Instant
	}{
		{"no block", nil, nil, 10, failed(1), false, nil},
		{"the first failure of one that may fail once", &jobspec.Restart{Attempts: 1}, nil, 10, failed(1), true,
			[]model.Instant{10}},
		{"the second", &jobspec.Restart{Attempts: 1}, []model.Instant{10}, 20, failed(1), false, []model.Instant{10, 20}},
		{"the second of two", &jobspec.Restart{Attempts: 2}, []model.Instant{10}, 20, failed(1), true,
			[]model.Instant{10, 20}},
		{"the first was a day ago", &jobspec.Restart{Attempts: 1}, []model.Instant{10}, 10 + day, failed(1), true,
			[]model.Instant{10 + day}},
		{"not quite a day ago", &jobspec.Restart{Attempts: 1}, []model.Instant{11}, 10 + day, failed(1), false,
			[]model.Instant{11, 10 + day}},
		{"a window of a minute", &jobspec.Restart{Attempts: 1, Window: 60}, []model.Instant{10}, 60_010, failed(1), true,
			[]model.Instant{60_010}},
		{"within the minute", &jobspec.Restart{Attempts: 1, Window: 60}, []model.Instant{11}, 60_010, failed(1), false,
			[]model.Instant{11, 60_010}},
		{"an exit that is not retried", &jobspec.Restart{Attempts: 1, NoRetryOnExit: []int{2}}, nil, 10, failed(2), false,
			nil},
		{"another", &jobspec.Restart{Attempts: 1, NoRetryOnExit: []int{2}}, nil, 10, failed(3), true, []model.Instant{10}},
		{"only some are retried", &jobspec.Restart{Attempts: 1, RetryOnExit: []int{2, 3}}, nil, 10, failed(3), true,
			[]model.Instant{10}},
		{"not one of them", &jobspec.Restart{Attempts: 1, RetryOnExit: []int{2, 3}}, nil, 10, failed(4), false, nil},
		{"a signal is 128 and its number", &jobspec.Restart{Attempts: 1, RetryOnExit: []int{137}}, nil, 10,
			Outcome{Signal: 9}, true, []model.Instant{10}},
		{"no signal is not 128", &jobspec.Restart{Attempts: 1, RetryOnExit: []int{128}}, nil, 10, failed(1), false, nil},
		{"lack of memory is 253", &jobspec.Restart{Attempts: 1, NoRetryOnExit: []int{253}}, nil, 10,
			Outcome{Cause: model.CauseOOM, Signal: 9}, false, nil},
		{"a failure is not 253", &jobspec.Restart{Attempts: 1, NoRetryOnExit: []int{253}}, nil, 10, failed(1), true,
			[]model.Instant{10}},
		{"a policy says that it is final", &jobspec.Restart{Attempts: 5}, nil, 10,
			Outcome{Code: 1, policy: model.PolicyFail}, false, nil},
		{"a policy says begin again", nil, []model.Instant{1, 2}, 10, Outcome{Code: 1, policy: model.PolicyRestart}, true,
			[]model.Instant{1, 2, 10}},
		{"but not for ever", nil, []model.Instant{1, 2, 3}, 10, Outcome{Code: 1, policy: model.PolicyRestart}, false,
			[]model.Instant{1, 2, 3, 10}},
		{"whatever its exit code", &jobspec.Restart{Attempts: 1, NoRetryOnExit: []int{1}, RetryOnExit: []int{2}}, nil, 10,
			Outcome{Code: 1, policy: model.PolicyRestart}, true, []model.Instant{10}},
		{"as often as its block says", &jobspec.Restart{Attempts: 1, NoRetryOnExit: []int{1}}, []model.Instant{1}, 10,
			Outcome{Code: 1, policy: model.PolicyRestart}, false, []model.Instant{1, 10}},
	} {
		j := &model.Job{Spec: spec(1, func(s *jobspec.Job) { s.Restart = c.restart }), Failures: slices.Clone(c.before)}
		if again := RetryAfterFailure(j, c.outcome, c.at) != nil; again != c.again {
			t.Errorf("%s: tried again: %t", c.name, again)
		}
		want := c.kept
		if want == nil {
			want = c.before
		}
		if !slices.Equal(j.Failures, want) {
			t.Errorf("%s: failures %d, want %d", c.name, j.Failures, want)
		}
	}
	if r := (&jobspec.Restart{Attempts: 3, NoRetryOnExit: []int{1}}); len(restartOf(&model.Job{Spec: spec(1,
		func(s *jobspec.Job) { s.Restart = r })}, Outcome{policy: model.PolicyRestart}).NoRetryOnExit) > 0 ||
		len(r.NoRetryOnExit) != 1 {
		t.Error("a policy changes the job's own restart block")
	}
}

// TestBackOff doubles delays up to their greatest.
func TestBackOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay func(failures int) jobspec.Seconds
		want  []jobspec.Seconds // after 0, 1, 2 and so on
	}{
		{"launch", LaunchBackOff, []jobspec.Seconds{5, 5, 10, 20, 40, 80, 160, 320, 600, 600}},
		{"default", func(n int) jobspec.Seconds { return FailureBackOff(&jobspec.Restart{}, n) },
			[]jobspec.Seconds{30, 30, 60, 120, 240, 480, 600, 600}},
		{"constant", func(n int) jobspec.Seconds { return FailureBackOff(&jobspec.Restart{Backoff: "constant"}, n) },
			[]jobspec.Seconds{30, 30, 30, 30}},
		{"its own", func(n int) jobspec.Seconds { return FailureBackOff(&jobspec.Restart{Delay: 3, MaxDelay: 7}, n) },
			[]jobspec.Seconds{3, 3, 6, 7, 7}},
		{"beyond its greatest", func(n int) jobspec.Seconds {
			return FailureBackOff(&jobspec.Restart{Delay: 9, MaxDelay: 7}, n)
		}, []jobspec.Seconds{7, 7}},
	} {
		for failures, want := range c.want {
			if got := c.delay(failures); got != want {
				t.Errorf("%s: after %d failures %d s, want %d s", c.name, failures, got, want)
			}
		}
	}
}

// TestDisplacementsAreCountedByCause counts each cause alone.
func TestDisplacementsAreCountedByCause(t *testing.T) {
	for cause, want := range map[model.Cause]model.Counters{
		model.CauseTE: {TE: 1}, model.CauseReclaim: {Reclaim: 1}, model.CauseOrder: {Order: 1},
		model.CauseShrink: {Resizes: 1}, model.CauseGrow: {Resizes: 1}, model.CauseMigrate: {Migrations: 1},
		model.CauseDrain: {Migrations: 1}, model.CauseFailed: {}, model.CauseCancelled: {},
	} {
		var got model.Counters
		if CountDisplacement(&got, cause); got != want {
			t.Errorf("%s counts as %+v, want %+v", cause, got, want)
		}
	}
}

// TestFailuresThatAreIgnored has a group that goes on without a worker that failed.
func TestFailuresThatAreIgnored(t *testing.T) {
	ignoring := spec(2, func(s *jobspec.Job) { s.Groups[0].OnWorkerFailure = model.OnFailureIgnore })
	for _, c := range []struct {
		name   string
		spec   *jobspec.Job
		worker model.Worker
		want   bool
	}{
		{"it failed", ignoring, worker(5, code(1)), true},
		{"its lease ended", ignoring, worker(5, code(1), leased), false},
		{"it was not launched", ignoring, worker(5, unlaunched), false},
		{"a group that does not say so", spec(2), worker(5, code(1)), false},
	} {
		a := &model.Attempt{Workers: []model.Worker{{}, c.worker}}
		if got := IgnoresFailure(&model.Job{Spec: c.spec, Workers: 2}, a, 1); got != c.want {
			t.Errorf("%s: ignored: %t", c.name, got)
		}
	}
}

// TestDependencies holds each type of dependency to what has become of one job, and of two.
func TestDependencies(t *testing.T) {
	states := map[model.JobID]ParentProgress{
		1: {}, 2: {Started: true}, 3: {Started: true, Ended: true, Well: true}, 4: {Started: true, Ended: true},
	}
	const waits, runs, well, failed = 1, 2, 3, 4
	met := func(kind string, id model.JobID) (met, never bool) {
		switch kind {
		case model.NeedAfter:
			return id != waits, false
		case model.NeedAfterOK:
			return id == well, id == failed
		case model.NeedAfterNotOK:
			return id == failed, id == well
		}
		return id == well || id == failed, false
	}
	for _, kind := range []string{model.NeedAfter, model.NeedAfterOK, model.NeedAfterNotOK, model.NeedAfterAny,
		model.NeedSingleton} {
		for a := model.JobID(waits); a <= failed; a++ {
			for b := model.JobID(waits); b <= failed; b++ {
				for _, any := range []bool{false, true} {
					n := &model.OpenDependency{Type: kind, Jobs: []model.JobID{a, b}, Any: any}
					got := DependencyOn(n, func(id model.JobID) ParentProgress { return states[id] })
					metA, neverA := met(kind, a)
					metB, neverB := met(kind, b)
					var want Dependency
					switch {
					case any && (metA || metB):
						want.Met = true
					case any && neverA && neverB:
						want.Never = b
					case !any && neverA:
						want.Never = a
					case !any && neverB:
						want.Never = b
					case !any && metA && metB:
						want.Met = true
					}
					if got.Met != want.Met || (got.Never != 0) != (want.Never != 0) {
						t.Errorf("%s of %d and %d, any %t: %+v, want %+v", kind, a, b, any, got, want)
					}
					var open []model.JobID
					if !want.Met && want.Never == 0 {
						for _, id := range n.Jobs {
							if m, never := met(kind, id); !m && !never {
								open = append(open, id)
							}
						}
						if !slices.Equal(got.Open, open) {
							t.Errorf("%s of %d and %d, any %t: open %d, want %d", kind, a, b, any, got.Open, open)
						}
					}
				}
			}
		}
	}
}

// TestCounterparts maps elements of one array to those of another by their indices.
func TestCounterparts(t *testing.T) {
	array := func(indices string) *model.Job {
		s := spec(1, func(s *jobspec.Job) { s.Array = &jobspec.Array{Indices: indices} })
		return &model.Job{Spec: s, Children: &model.Children{Size: s.Array.Elements().Len()}}
	}
	for _, c := range []struct {
		from, to string
		tasks    ranges.Ranges
		want     string
	}{
		{"1-4", "1-4", ranges.Span(2, 3), "2-3"},
		{"1-4", "2-5", ranges.Span(1, 4), "1-3"},
		{"2-5", "1-4", ranges.Span(1, 4), "2-4"},
		{"0-8:2", "4,8", ranges.Span(1, 5), "1-2"},
		{"1-4", "7-9", ranges.Span(1, 4), ""},
	} {
		if got := Counterparts(array(c.from), array(c.to), c.tasks); got.String() != c.want {
			t.Errorf("tasks %s of %s are %s of %s, want %s", c.tasks, c.from, got, c.to, c.want)
		}
	}
	one := array("1-4")
	if got := Counterparts(one, &model.Job{Spec: one.Spec, Children: one.Children},
		ranges.Span(2, 3)); got.String() != "2-3" {
		t.Errorf("of the same array: %s", got)
	}
}

// sound is a running gang of two workers that nothing is wrong with.
func sound() *model.Job {
	w := func(i int) model.Worker {
		return model.Worker{Index: i, Place: model.Place{Node: "n1", GPUs: []int{i}}, State: model.WorkerRunning, Started: 20}
	}
	return &model.Job{ID: 7, Spec: spec(2), Workers: 2, Attempt: 2, State: model.Running,
		Request: model.Request{Active: model.Vector{Cores: 1, GPUs: 1000}},
		Attempts: []model.Attempt{
			{N: 1, Assigned: model.Stamp{At: 1}, Ended: model.Stamp{At: 5}, Workers: make([]model.Worker, 2)},
			{N: 2, Assigned: model.Stamp{At: 10}, Released: true, Workers: []model.Worker{w(0), w(1)}},
		}}
}

// parent is a sound array of ten: three wait, one was dropped, two live and four have ended.
func parent() *model.Job {
	return &model.Job{ID: 7, State: model.Running, Spec: spec(1, func(s *jobspec.Job) {
		s.Array = &jobspec.Array{Indices: "1-10"}
	}), Workers: 1, Children: &model.Children{Size: 10, Waiting: ranges.Span(8, 10), Dropped: ranges.Span(7, 7), Live: 2,
		Completed: 2, Failed: 1, Cancelled: 1, Unsuccessful: ranges.Span(3, 4), HeldUser: ranges.Span(8, 8),
		HeldAdmin: ranges.Span(9, 9), Ready: ranges.Span(8, 9)}}
}

// TestCheckFindsDamagedJobs damages a sound job in one way at a time.
func TestCheckFindsDamagedJobs(t *testing.T) {
	done := func(j *model.Job) {
		j.State, j.Seq, j.Ended.At = model.Completed, 1, 50
		a := &j.Attempts[1]
		a.Ended.At = 50
		for i := range a.Workers {
			a.Workers[i].State, a.Workers[i].Ended = model.WorkerExited, 50
		}
	}
	alive := func(j *model.Job) *model.Attempt { return &j.Attempts[1] }
	for _, c := range []struct {
		name   string
		of     func() *model.Job
		damage func(*model.Job)
		want   string // "": nothing is wrong
	}{
		{"nothing", sound, func(*model.Job) {}, ""},
		{"it is done", sound, done, ""},
		{"it waits", sound, func(j *model.Job) { j.State = model.Pending; alive(j).Ended.At = 50 }, ""},
		{"it waits and is held", sound, func(j *model.Job) {
			j.State, j.Hold = model.Pending, model.HeldByUser
			alive(j).Ended.At = 50
		}, ""},
		{"its deadline passed", sound, func(j *model.Job) { done(j); j.State = model.PastDue }, ""},
		{"a stop is in progress", sound, func(j *model.Job) {
			j.State, alive(j).Stop = model.Completing, &model.Stop{Cause: model.CauseTE}
		}, ""},
		{"one of its workers has ended", sound, func(j *model.Job) {
			alive(j).Workers[0].State, alive(j).Workers[0].Ended = model.WorkerExited, 30
		}, ""},
		{"its containers are being made", sound, func(j *model.Job) {
			j.State, alive(j).Released = model.Configuring, false
			for i := range alive(j).Workers {
				alive(j).Workers[i].State = model.WorkerAssigned
			}
		}, ""},
		{"its containers exist and commands may start", sound, func(j *model.Job) {
			j.State = model.Configuring
			for i := range alive(j).Workers {
				alive(j).Workers[i].State = model.WorkerCreated
			}
		}, ""},
		{"no state", sound, func(j *model.Job) { j.State = "" }, "no such state"},
		{"a state that there is not", sound, func(j *model.Job) { j.State = "X" }, "no such state"},
		{"two attempts live", sound, func(j *model.Job) { j.Attempts[0].Ended.At = 0 }, "out of order"},
		{"numbers are out of order", sound, func(j *model.Job) { j.Attempts[0].N = 2 }, "out of order"},
		{"an attempt is missing", sound, func(j *model.Job) { j.Attempt = 3 }, "out of order"},
		{"a worker is missing", sound, func(j *model.Job) { alive(j).Workers = alive(j).Workers[:1] }, "out of order"},
		{"too many attempts", sound, func(j *model.Job) {
			all := make([]model.Attempt, model.MaxAttemptsKept-1)
			for i := range all {
				all[i] = model.Attempt{N: i + 1, Ended: model.Stamp{At: 5}, Workers: make([]model.Worker, 2)}
			}
			j.Attempts, j.Attempt = append(all, j.Attempts...), model.MaxAttemptsKept+1
			for i := range j.Attempts {
				j.Attempts[i].N = i + 1
			}
		}, "too many"},
		{"as many as may be", sound, func(j *model.Job) {
			all := make([]model.Attempt, model.MaxAttemptsKept-2)
			for i := range all {
				all[i] = model.Attempt{N: i + 1, Ended: model.Stamp{At: 5}, Workers: make([]model.Worker, 2)}
			}
			j.Attempts, j.Attempt = append(all, j.Attempts...), model.MaxAttemptsKept
			for i := range j.Attempts {
				j.Attempts[i].N = i + 1
			}
		}, ""},
		{"it waits with an attempt", sound, func(j *model.Job) { j.State = model.Pending }, "does not match its attempt"},
		{"it runs without one", sound, func(j *model.Job) { alive(j).Ended.At = 50 }, "does not match its attempt"},
		{"it is done and has no number", sound, func(j *model.Job) { done(j); j.Seq = 0 }, "number in the history"},
		{"it is done and has no end", sound, func(j *model.Job) { done(j); j.Ended.At = 0 }, "number in the history"},
		{"it runs and has a number", sound, func(j *model.Job) { j.Seq = 1 }, "number in the history"},
		{"it runs and has an end", sound, func(j *model.Job) { j.Ended.At = 1 }, "number in the history"},
		{"it runs and is held", sound, func(j *model.Job) { j.Hold = model.HeldByUser }, "held"},
		{"workers change places", sound, func(j *model.Job) { alive(j).Workers[1].Index = 0 }, "differs from the request"},
		{"a worker in no state", sound, func(j *model.Job) { alive(j).Workers[1].State = "x" }, "differs from the request"},
		{"a worker without its GPU", sound, func(j *model.Job) { alive(j).Workers[1].GPUs = nil },
			"differs from the request"},
		{"a worker ended and runs", sound, func(j *model.Job) { alive(j).Workers[1].Ended = 3 }, "final without"},
		{"a worker is final without an end", sound, func(j *model.Job) {
			alive(j).Workers[1].State = model.WorkerExited
		}, "final without"},
		{"every worker is final", sound, func(j *model.Job) {
			for i := range alive(j).Workers {
				alive(j).Workers[i].State, alive(j).Workers[i].Ended = model.WorkerExited, 30
			}
		}, "the attempt goes on"},
		{"it runs and is stopped", sound, func(j *model.Job) { alive(j).Stop = &model.Stop{} }, "its stop"},
		{"it completes and is not stopped", sound, func(j *model.Job) { j.State = model.Completing }, "its stop"},
		{"it runs before its workers do", sound, func(j *model.Job) {
			alive(j).Workers[1].State = model.WorkerCreated
		}, "its workers"},
		{"it does not run although its workers do", sound, func(j *model.Job) { j.State = model.Configuring }, "its workers"},
		{"it runs and was not released", sound, func(j *model.Job) { alive(j).Released = false }, "commands are released"},
		{"it was released too soon", sound, func(j *model.Job) {
			j.State, alive(j).Workers[1].State = model.Configuring, model.WorkerAssigned
		}, "commands are released"},

		{"a parent", parent, func(*model.Job) {}, ""},
		{"a parent that has not begun", parent, func(j *model.Job) { j.State = model.Pending }, ""},
		{"a parent that is over", parent, func(j *model.Job) {
			f := j.Children
			f.Waiting, f.HeldUser, f.HeldAdmin, f.Ready, f.Live, f.Completed = nil, nil, nil, nil, 0, 7
			j.State, j.Seq, j.Ended.At = model.Failed, 1, 9
		}, ""},
		{"a parent whose fate is decided", parent, func(j *model.Job) {
			f := j.Children
			f.Waiting, f.HeldUser, f.HeldAdmin, f.Ready, f.Fate = nil, nil, nil, nil, model.Cancelled
			f.Dropped = ranges.Span(7, 10)
		}, ""},
		{"a parent with an attempt", parent, func(j *model.Job) {
			j.Attempt, j.Attempts = 1, []model.Attempt{{N: 1, Workers: make([]model.Worker, 1)}}
		}, "must neither run itself"},
		{"a parent of a parent", parent, func(j *model.Job) { j.Parent = 3 }, "must neither run itself"},
		{"no tasks", parent, func(j *model.Job) { j.Children.Size = 0 }, "out of range"},
		{"too many tasks", parent, func(j *model.Job) { j.Children.Size = model.MaxArrayTasks + 1 }, "out of range"},
		{"a negative count", parent, func(j *model.Job) { j.Children.Live, j.Children.Completed = -1, 5 }, "out of range"},
		{"a task is missing", parent, func(j *model.Job) { j.Children.Live = 1 }, "missing or counted twice"},
		{"a task waits that there is not", parent, func(j *model.Job) {
			j.Children.Waiting = ranges.Span(9, 11)
			j.Children.HeldUser, j.Children.HeldAdmin, j.Children.Ready = nil, nil, nil
		}, "dropped tasks are pending, or unknown"},
		{"a task was dropped that there is not", parent, func(j *model.Job) { j.Children.Dropped = ranges.Span(0, 0) },
			"dropped tasks are pending, or unknown"},
		{"a task waits that was dropped", parent, func(j *model.Job) { j.Children.Dropped = ranges.Span(8, 8) },
			"dropped tasks are pending"},
		{"held by its owner and does not wait", parent, func(j *model.Job) { j.Children.HeldUser = ranges.Span(1, 1) },
			"held or ready tasks"},
		{"held by an operator and does not wait", parent, func(j *model.Job) { j.Children.HeldAdmin = ranges.Span(1, 1) },
			"held or ready tasks"},
		{"ready and does not wait", parent, func(j *model.Job) { j.Children.Ready = ranges.Span(1, 1) },
			"held or ready tasks"},
		{"held twice", parent, func(j *model.Job) { j.Children.HeldAdmin = ranges.Span(8, 9) }, "held twice"},
		{"unsuccessful out of range", parent, func(j *model.Job) { j.Children.Unsuccessful = ranges.Span(10, 11) },
			"which tasks failed"},
		{"one too many unsuccessful", parent, func(j *model.Job) { j.Children.Unsuccessful = ranges.Span(3, 5) },
			"which tasks failed"},
		{"its outcome is decided", parent, func(j *model.Job) { j.Children.Fate = model.Cancelled }, "its outcome"},
		{"it is final and tasks wait", parent, func(j *model.Job) { j.State, j.Seq, j.Ended.At = model.Failed, 1, 9 },
			"its end"},
		{"a parent has a number", parent, func(j *model.Job) { j.Seq = 1 }, "its end"},
		{"a parent has an end", parent, func(j *model.Job) { j.Ended.At = 1 }, "its end"},
		{"a parent completes", parent, func(j *model.Job) { j.State = model.Completing },
			"a parent job cannot have this state"},
		{"a parent is held and nothing waits", parent, func(j *model.Job) {
			f := j.Children
			f.Waiting, f.HeldUser, f.HeldAdmin, f.Ready, f.Live = nil, nil, nil, nil, 5
			j.Hold = model.HeldByUser
		}, "held, but no task is pending"},
	} {
		j := c.of()
		c.damage(j)
		err := CheckJob(j)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: the check says %v, want %q", c.name, err, c.want)
		}
	}
}

// TestElasticJobsWaitWithTheirFewest checks the size of a job that may have two to four workers.
func TestElasticJobsWaitWithTheirFewest(t *testing.T) {
	for workers, sound := range map[int]bool{2: true, 3: false} {
		j := &model.Job{ID: 7, State: model.Pending, Workers: workers, Spec: spec(2, func(s *jobspec.Job) {
			s.Groups[0].Elastic = &jobspec.Elastic{Min: 2, Max: 4}
		})}
		if err := CheckJob(j); (err == nil) != sound {
			t.Errorf("it waits with %d workers: %v", workers, err)
		}
		j.State, j.Seq, j.Ended.At = model.Cancelled, 1, 9
		if err := CheckJob(j); err != nil {
			t.Errorf("it was cancelled with %d workers: %v", workers, err)
		}
	}
}

// TestAnElasticAttemptHasTheWorkersOfItsJob checks an attempt with a size that the job may have, but
// has not now.
func TestAnElasticAttemptHasTheWorkersOfItsJob(t *testing.T) {
	j := sound()
	j.Spec = spec(2, func(s *jobspec.Job) { s.Groups[0].Elastic = &jobspec.Elastic{Min: 1, Max: 4} })
	if err := CheckJob(j); err != nil {
		t.Error(err)
	}
	j.Workers = 3
	if err := CheckJob(j); err == nil || !strings.Contains(err.Error(), "it has 2 workers, the job 3") {
		t.Errorf("the check says %v", err)
	}
}

// TestLedger charges a job of two workers and two attempts.
func TestLedger(t *testing.T) {
	job := func() *model.Job {
		j := sound()
		j.Request.Active = model.Vector{Cores: 3, GPUs: 500}
		j.Attempts[0].Workers[0].Ended, j.Attempts[0].Workers[1].Ended = 4, 5 // 3 and 4 ms
		a := &j.Attempts[1]
		a.Workers[0].Ended = 30 // 20 ms; the other one holds its room still
		j.Ledger = model.Ledger{GPUMS: model.GPUTime(3, 500) + model.GPUTime(4, 500) + model.GPUTime(20, 500),
			CoreMS: 3 * (3 + 4 + 20)}
		return j
	}
	for _, c := range []struct {
		name   string
		change func(*model.Job)
		sound  bool
	}{
		{"as it is", func(*model.Job) {}, true},
		{"a GPU too much", func(j *model.Job) { j.Ledger.GPUMS++ }, false},
		{"a core too little", func(j *model.Job) { j.Ledger.CoreMS-- }, false},
		{"attempts were dropped", func(j *model.Job) { j.Ledger.CoreMS--; j.Attempt++ }, true},
		{"a whole node", func(j *model.Job) {
			a := &j.Attempts[1]
			for i := range a.Workers {
				a.Workers[i].Whole, a.Workers[i].Ended = model.Vector{Cores: 64}, model.Instant(30+i)
			}
			// the first worker stands for its node, until the last one has left
			j.Ledger = model.Ledger{GPUMS: model.GPUTime(3, 500) + model.GPUTime(4, 500), CoreMS: 3*(3+4) + 64*21}
		}, true},
	} {
		j := job()
		c.change(j)
		if err := CheckLedger(j); (err == nil) != c.sound {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestAJobOfSrunEndsAsItsStep: the job that srun has made for a step has run out of memory if that has, whatever its
// script exits with. One of salloc goes by its command, and what was stopped by its stop.
func TestAJobOfSrunEndsAsItsStep(t *testing.T) {
	const tail = "the kernel killed tail"
	fine, killed := model.Step{ExitCode: 3}, model.Step{Signal: model.SignalOOM, OOM: true, Why: tail}
	for name, c := range map[string]struct {
		command string
		steps   []model.Step
		worker  model.Worker
		stop    *model.Stop
		cause   model.Cause
		text    string
	}{
		"its step ran out of memory": {"srun", []model.Step{killed}, worker(5, code(253)), nil, model.CauseOOM, tail},
		"and srun is gone":           {"srun", []model.Step{killed}, worker(5, signal(9)), nil, model.CauseOOM, tail},
		"the last one did":           {"srun", []model.Step{fine, killed}, worker(5, code(253)), nil, model.CauseOOM, tail},
		"another one did":            {"srun", []model.Step{killed, fine}, worker(5, code(3)), nil, model.CauseFailed, ""},
		"its step failed":            {"srun", []model.Step{fine}, worker(5, code(253)), nil, model.CauseFailed, ""},
		"it had no step":             {"srun", nil, worker(5, code(253)), nil, model.CauseFailed, ""},
		"a job of salloc":            {"salloc", []model.Step{killed}, worker(5, code(253)), nil, model.CauseFailed, ""},
		"a job with a script":        {"", []model.Step{killed}, worker(5, code(253)), nil, model.CauseFailed, ""},
		"its node was lost":          {"srun", []model.Step{killed}, worker(5, lost), nil, model.CauseNodeLost, "shim lost"},
		"it was cancelled": {"srun", []model.Step{killed}, worker(6, signal(15)), &model.Stop{Cause: model.CauseCancelled,
			At: 5}, model.CauseCancelled, ""},
	} {
		j := &model.Job{Workers: 1, Spec: spec(1, func(s *jobspec.Job) {
			s.Meta = map[string]string{jobspec.MetaAllocation: c.command}
		})}
		a := &model.Attempt{Workers: []model.Worker{c.worker}, Stop: c.stop, Steps: c.steps}
		got := OutcomeOf(j, a)
		if got.Cause != c.cause || got.Message != c.text {
			t.Errorf("%s: %s, %q", name, got.Cause, got.Message)
		}
		want := ""
		if a.Cause = got.Cause; got.Cause == model.CauseOOM {
			want = tail
		}
		if a.Killed() != want {
			t.Errorf("%s: killed %q", name, a.Killed())
		}
	}
}
