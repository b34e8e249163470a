package lifecycle

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhoseFailureDecides takes one reason after another from the failure of a worker before the signal
// came to it, beside a second worker of its gang.
func TestWhoseFailureDecides(t *testing.T) {
	type edit = func(*model.Job, *model.Attempt)
	first := func(f func(*model.Worker)) edit { return func(_ *model.Job, a *model.Attempt) { f(&a.Workers[0]) } }
	second := func(fs ...func(*model.Worker)) edit {
		return func(_ *model.Job, a *model.Attempt) {
			for _, f := range fs {
				f(&a.Workers[1])
			}
		}
	}
	ended := func(at model.Instant) func(*model.Worker) { return func(w *model.Worker) { w.Ended = at } }
	holding := func(j *model.Job, a *model.Attempt) {
		j.Spec.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
	}
	ignored := func(j *model.Job, _ *model.Attempt) { j.Spec.Groups[0].OnWorkerFailure = model.OnFailureIgnore }
	lostShim := func(w *model.Worker) { w.State = model.WorkerFailed }
	both := func(a, b edit) edit { return func(j *model.Job, at *model.Attempt) { a(j, at); b(j, at) } }
	for name, c := range map[string]struct {
		change edit
		own    bool // its failure decides
		all    bool // or all ended by themselves
	}{
		"it failed first":                        {func(*model.Job, *model.Attempt) {}, true, true},
		"it heard the signal":                    {first(func(w *model.Worker) { w.Own = false }), false, false},
		"its shim was lost":                      {first(lostShim), false, false},
		"it was never executed":                  {first(func(w *model.Worker) { w.Unbegun = true }), false, false},
		"it succeeded":                           {first(func(w *model.Worker) { w.ExitCode = 0 }), false, false},
		"nothing stops it":                       {func(_ *model.Job, a *model.Attempt) { a.Stop = nil }, false, false},
		"failures are ignored":                   {ignored, false, false},
		"they are, and the other ended so":       {both(ignored, second(own)), false, true},
		"they are, and the other never began":    {both(ignored, second(own, unbegun)), false, false},
		"they are, and the other's shim is gone": {both(ignored, second(own, lost)), false, false},
		"they are, and the other leaves alone":   {both(ignored, second(leaving)), false, true},
		"they are, and nothing stops it": {both(func(j *model.Job, a *model.Attempt) {
			j.Spec.Groups[0].OnWorkerFailure, a.Stop = "ignore", nil
		}, second(own)), false, false},
		"the other ended with it":               {second(ended(6)), false, false},
		"the other ended before it":             {second(ended(5)), false, false},
		"the other ended before it by itself":   {second(ended(5), own), true, true},
		"the other never began":                 {second(ended(5), unbegun), true, true},
		"the other's lease ended later":         {second(leased), false, false},
		"the other's shim was lost later":       {second(lost), false, false},
		"the other could not be launched later": {second(unlaunched), true, true},
		"the other holds room, and ended first": {both(holding, second(ended(5))), true, true},
		"the other holds room, lease ended":     {both(holding, second(leased)), true, true},
	} {
		j := &model.Job{Spec: spec(2), Workers: 2}
		a := &model.Attempt{Stop: &model.Stop{Cause: model.CauseTE, At: 5},
			Workers: []model.Worker{worker(6, own, code(1)), worker(7, code(1), on("n2"))}}
		a.Workers[1].Index = 1
		c.change(j, a)
		if got := ownFailure(j, a, 0); got != c.own {
			t.Errorf("%s: its failure decides: %t", name, got)
		}
		if got := failedUnasked(j, a); got != c.all {
			t.Errorf("%s: it failed unasked: %t", name, got)
		}
	}
}

// TestWhatAsksToBeStartedAgain goes through how a worker ends, and at which of them that says that its job
// is to go on.
func TestWhatAsksToBeStartedAgain(t *testing.T) {
	stop := func(c model.Cause) *model.Stop { return &model.Stop{Cause: c, At: 5} }
	for name, c := range map[string]struct {
		spec    *jobspec.Job
		stop    *model.Stop
		workers []model.Worker
		says    bool // its first worker
		all     bool // at its time limit
	}{
		"its own code": {spec(1, checkpoint(9)), nil, []model.Worker{worker(6, code(9))}, true, true},
		"another":      {spec(1, checkpoint(9)), nil, []model.Worker{worker(6, code(8))}, false, false},
		"its code and a signal": {spec(1, checkpoint(9)), nil, []model.Worker{worker(6, code(9), signal(15))},
			false, false},
		"its code for want of memory": {spec(1, checkpoint(9)), nil, []model.Worker{worker(6, code(9), oom)},
			true, true}, // OutcomeOf judges the want of memory before
		"its code, and its shim is gone": {spec(1, checkpoint(9)), nil, []model.Worker{worker(6, code(9), lost)},
			false, false},
		"0 and no code":           {spec(1), nil, []model.Worker{worker(6)}, false, false},
		"the usual code, unasked": {spec(1), nil, []model.Worker{worker(6, code(85))}, false, false},
		"the usual code, asked":   {spec(1), stop(model.CauseTE), []model.Worker{worker(6, code(85))}, true, true},
		"the usual code, and it runs once": {spec(1, once), stop(model.CauseTE), []model.Worker{worker(6, code(85))}, false,
			false},
		"the usual code at its limit": {spec(1), stop(model.CauseTimeout), []model.Worker{worker(6, code(85))},
			false, false},
		"the usual code after its gang failed": {spec(1), stop(model.CauseFailed), []model.Worker{worker(6, code(85))},
			false, false},
		"one of two": {spec(2, checkpoint(9)), nil, []model.Worker{worker(6, code(9)),
			worker(6, code(1))}, true, false},
		"the second of two": {spec(2, checkpoint(9)), nil, []model.Worker{worker(6, code(1)),
			worker(6, code(9))}, false, false},
		"beside one that is done": {spec(2, checkpoint(9)), nil, []model.Worker{worker(6, code(9)), worker(6)}, true, true},
		"beside one that leaves alone": {spec(2, checkpoint(9)), nil, []model.Worker{worker(6, code(9)),
			worker(6, code(1), leaving)}, true, true},
		"all are done": {spec(2, checkpoint(9)), nil, []model.Worker{worker(6), worker(6)}, false, false},
	} {
		j, a := &model.Job{Spec: c.spec, Workers: len(c.workers)}, &model.Attempt{Workers: c.workers, Stop: c.stop}
		if got := saysRequeue(c.spec, a, &a.Workers[0]); got != c.says {
			t.Errorf("%s: the worker asks: %t", name, got)
		}
		if got := asksForRequeue(j, a); got != c.all {
			t.Errorf("%s: the attempt asks: %t", name, got)
		}
	}
}

// TestWhatADeadlineEnds compares the instant of a stop with the deadline: at it the job is over, before it
// only the attempt.
func TestWhatADeadlineEnds(t *testing.T) {
	for _, c := range []struct {
		deadline, stopped model.Instant
		past              bool
	}{{0, 5, false}, {6, 5, false}, {5, 5, true}, {4, 5, true}} {
		j := &model.Job{Spec: spec(1, checkpoint(9)), Workers: 1, Deadline: c.deadline}
		a := &model.Attempt{Workers: []model.Worker{worker(6, code(9))},
			Stop: &model.Stop{Cause: model.CauseTimeout, At: c.stopped}}
		want, rule := model.CauseRequeue, model.RuleRequeueCode
		if c.past {
			want, rule = model.CauseTimeout, model.RuleTimeLimit
		}
		o := OutcomeOf(j, a)
		if PastDeadline(j, a) != c.past || o.Cause != want || o.Rule != rule || o.Checkpoint == c.past {
			t.Errorf("a deadline at %d, stopped at %d: %s by %s, checkpoint %t", c.deadline, c.stopped, o.Cause, o.Rule,
				o.Checkpoint)
		}
		a.Workers[0].Own = true // before the signal came
		o = OutcomeOf(j, a)
		if o.Cause != want || o.Rule != rule || o.Checkpoint == c.past || o.Over {
			t.Errorf("a deadline at %d, stopped at %d, it exited by itself: %s by %s, checkpoint %t, over %t", c.deadline,
				c.stopped, o.Cause, o.Rule, o.Checkpoint, o.Over)
		}
		a.Workers[0].ExitCode = 1
		if o = OutcomeOf(j, a); o.Cause != model.CauseFailed || o.Rule != model.RuleOwnExit && o.Rule != model.RuleExit ||
			o.Over != c.past {
			t.Errorf("a deadline at %d, stopped at %d, it failed by itself: %s by %s, over %t", c.deadline, c.stopped, o.Cause,
				o.Rule, o.Over)
		}
	}
}

// TestTheRuleOfAnUnexecutedGang: a single worker that was executed is enough for the rule of the stop.
func TestTheRuleOfAnUnexecutedGang(t *testing.T) {
	for _, c := range []struct {
		first, second bool // executed
		want          model.EndRule
	}{{true, true, model.RuleDisplaced}, {true, false, model.RuleDisplaced}, {false, true, model.RuleDisplaced},
		{false, false, model.RuleNotExecuted}} {
		a := &model.Attempt{Stop: &model.Stop{Cause: model.CauseTE, At: 5},
			Workers: []model.Worker{{Unbegun: !c.first}, {Unbegun: !c.second}}}
		if got := ruleUnlessExecuted(a, model.RuleDisplaced); got != c.want {
			t.Errorf("executed %t and %t: %s", c.first, c.second, got)
		}
	}
}

// TestWhoseEndIsCounted: among failed workers, those that ended by the instant of the stop come
// first, then those that ended by themselves. Workers that succeeded, leave alone or only hold room
// do not count.
func TestWhoseEndIsCounted(t *testing.T) {
	steps := spec(4)
	steps.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
	all := []model.Worker{worker(5, code(1)), worker(6, code(2)), worker(6, code(3), own), worker(5)}
	left := []model.Worker{worker(5, code(1), leaving), worker(6, code(2)), worker(6, code(3), own), worker(5)}
	for i := range all {
		all[i].Index, left[i].Index = i, i
	}
	broken := append([]model.Worker{}, all...)
	broken[1].State = model.WorkerFailed
	for name, c := range map[string]struct {
		spec    *jobspec.Job
		workers []model.Worker
		stop    *model.Stop
		want    []int
	}{
		"no stop":                          {spec(4), all, nil, []int{1, 2, 3}},
		"a stop":                           {spec(4), all, &model.Stop{At: 5}, []int{1}},
		"a stop before all":                {spec(4), all, &model.Stop{At: 4}, []int{3}},
		"a stop after all":                 {spec(4), all, &model.Stop{At: 6}, []int{1, 2, 3}},
		"the first leaves alone":           {spec(4), left, &model.Stop{At: 5}, []int{3}},
		"they hold room":                   {steps, all, nil, []int{1}},
		"they hold room, and one was lost": {steps, broken, nil, []int{1, 2}},
	} {
		var got []int
		for _, w := range culprits(&model.Job{Spec: c.spec, Workers: 4}, &model.Attempt{Workers: c.workers, Stop: c.stop}) {
			got = append(got, w.ExitCode)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: exit codes %v, want %v", name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: exit codes %v, want %v", name, got, c.want)
			}
		}
	}
}

// TestCheckFindsWhatAnAttemptCannotBe damages what an attempt says of its class, of its early signal, of its
// devices, and of the GPU that it shares.
func TestCheckFindsWhatAnAttemptCannotBe(t *testing.T) {
	early := func(j *model.Job) *model.Attempt {
		j.Spec.Checkpoint = &jobspec.Checkpoint{BeforeLimit: 60}
		a := &j.Attempts[1]
		a.Started.At, a.Early = 1, 1
		return a
	}
	for name, c := range map[string]struct {
		damage func(*model.Job, *model.Attempt)
		sound  bool
	}{
		"a class":                   {func(_ *model.Job, a *model.Attempt) { a.Class, a.ClassSince = "watching", 1 }, true},
		"a class that there is not": {func(_ *model.Job, a *model.Attempt) { a.Class, a.ClassSince = "done", 1 }, false},
		"a class since never":       {func(_ *model.Job, a *model.Attempt) { a.Class = "watching" }, false},
		"no class since then":       {func(_ *model.Job, a *model.Attempt) { a.ClassSince = 1 }, false},
		"told early":                {func(j *model.Job, a *model.Attempt) { early(j) }, true},
		"told before it ran":        {func(j *model.Job, a *model.Attempt) { early(j).Started.At = 0 }, false},
		"told, and saves nothing":   {func(j *model.Job, a *model.Attempt) { early(j); j.Spec.Checkpoint = nil }, false},
		"told unasked": {func(j *model.Job, a *model.Attempt) {
			early(j)
			j.Spec.Checkpoint.BeforeLimit = 0
		}, false},
		"a worker on a GPU too many": {func(_ *model.Job, a *model.Attempt) { a.Workers[0].GPUs = []int{0, 1} },
			false},
		"it shares a GPU, which is not " +
			"allowed": {func(_ *model.Job, a *model.Attempt) { a.Packing = &model.Packing{Share: 1} }, false},
	} {
		j := sound()
		c.damage(j, &j.Attempts[1])
		if err := CheckJob(j); (err == nil) != c.sound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOnHowManyGPUsAWorkerLies: on none if it is suspended, or was when it ended.
func TestOnHowManyGPUsAWorkerLies(t *testing.T) {
	pausing := &model.Switching{Number: 1, Since: 9}
	for name, c := range map[string]struct {
		gpus  []int
		sw    *model.Switching
		final bool
		want  int
	}{
		"it runs":                         {[]int{0}, nil, false, 1},
		"it has none":                     {nil, nil, false, 1},
		"it is suspended":                 {nil, pausing, false, 0},
		"it is suspended and has one":     {[]int{0}, pausing, false, 1},
		"it goes on":                      {nil, &model.Switching{Number: 2}, false, 1},
		"it ended while it was suspended": {nil, &model.Switching{Number: 2}, true, 0},
		"it ended":                        {nil, nil, true, 1},
	} {
		j := sound()
		a := &j.Attempts[1]
		a.Workers[0].GPUs, a.Switch = c.gpus, c.sw
		if c.final {
			a.Workers[0].State = model.WorkerExited
		}
		if got := devices(j, a, 0); got != c.want {
			t.Errorf("%s: on %d GPUs, want %d", name, got, c.want)
		}
	}
}
