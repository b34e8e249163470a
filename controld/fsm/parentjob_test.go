package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// parent submits one parent job and returns its id.
func (w *world) parent(workers, gpus int, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	spec := testSpec(workers, gpus)
	for _, e := range edit {
		e(spec)
	}
	return w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
}

func array(indices string, edit ...func(*jobspec.Array)) func(*jobspec.Job) {
	return func(j *jobspec.Job) {
		j.Array = &jobspec.Array{Indices: indices}
		for _, e := range edit {
			e(j.Array)
		}
	}
}

// taskGroups makes a job of several groups like its first, each named and depending on others as in
// train<prep:ok.
func taskGroups(texts ...string) func(*jobspec.Job) {
	return func(j *jobspec.Job) {
		like := j.Groups[0]
		j.Groups = nil
		for _, text := range texts {
			parts := strings.Split(text, "<")
			g := like
			g.Name, g.DependsOn = parts[0], parts[1:]
			j.Groups = append(j.Groups, g)
		}
	}
}

// make starts a task of a parent job on nodes, which makes it if it is an array's.
func (w *world) make(parent model.JobID, task int, nodes ...string) error {
	w.t.Helper()
	c := &StartJob{Job: parent, TaskNumber: task}
	for _, n := range nodes {
		c.Places = append(c.Places, w.place(n, int(w.job(parent).Request.Active.GPUs/1000)))
	}
	c.Port, _ = w.s.v.FreePort(nodes[0])
	return w.must(CommitPlan{Actions: []Action{c}}).([]error)[0]
}

func (w *world) control2(verb model.Verb, id model.JobID, tasks string) error {
	w.t.Helper()
	var t Target
	t.ID = id
	if err := t.Tasks.UnmarshalText([]byte(tasks)); err != nil {
		w.t.Fatal(err)
	}
	return w.must(ControlJobs{Verb: verb, Targets: []Target{t}, By: alice.UID}).([]model.ControlResult)[0].Err
}

// exit ends a job's attempt, all of whose workers run or will be said to.
func (w *world) exit(id model.JobID, exitCode int) {
	w.t.Helper()
	for i := range w.job(id).Workers {
		w.report(id, i, model.WorkerExited, code(exitCode))
	}
}

func (w *world) family(id model.JobID, want string) {
	w.t.Helper()
	f := w.job(id).Children
	got := fmt.Sprintf("waiting %s dropped %s: %d live %d completed %d failed %d cancelled", f.Waiting, f.Dropped, f.Live,
		f.Completed, f.Failed, f.Cancelled)
	if got != want {
		w.t.Fatalf("job %d: %s, want %s", id, got, want)
	}
}

func TestArrayIsOneRecord(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	before := len(w.snapshot())
	id := w.parent(1, 1, array("0-99999"))
	if grown := len(w.snapshot()) - before; grown > 1500 {
		t.Errorf("an array of 100,000 takes %d bytes of a snapshot", grown)
	}
	next := w.parent(1, 1)
	if next != id+100_001 {
		t.Fatalf("the job after an array of 100,000 with id %d has id %d", id, next)
	}
	w.state(id, model.Pending)
	w.ok(w.make(id, 5, "n1"))
	w.state(id, model.Running)
	m := w.job(id + 5)
	if m.Parent != id || m.TaskNumber != 5 || m.Spec != w.job(id).Spec || m.State != model.Configuring ||
		m.GroupIndex() != 0 {
		t.Fatalf("task 5 is %+v", m)
	}
	w.family(id, "waiting 1-4,6-100000 dropped : 1 live 0 completed 0 failed 0 cancelled")
	if r, n := w.s.v.ParentOf(id + 77); r.ID != id || n != 77 {
		t.Errorf("id %d belongs to %v, %d", id+77, r, n)
	}
	if r, _ := w.s.v.ParentOf(next); r != nil {
		t.Errorf("job %d belongs to job %d", next, r.ID)
	}
	w.refused(w.make(id, 5, "n1"), model.ErrWrongState)
	w.refused(w.make(id, 0, "n1"), model.ErrNoTask)
	w.refused(w.make(id, 100_001, "n1"), model.ErrNoTask)
	w.refused(w.make(next, 1, "n1"), model.ErrNoTask)
	log := len(w.log)
	w.ok(w.control(model.VerbCancel, alice.UID, false, id))
	if len(w.log) != log+1 {
		t.Error("cancelling took more than one entry")
	}
	w.state(id, model.Running)
	w.family(id, "waiting  dropped 1-4,6-100000: 1 live 0 completed 0 failed 0 cancelled")
	w.exit(id+5, 0)
	w.state(id, model.Cancelled)
	if j := w.job(id); j.Reason.Text != "told so" || j.Seq < w.job(id+5).Seq {
		t.Errorf("the parent ended as %+v before its task", j)
	}
}

func TestArrayEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int // -1: cancelled singly
		edit  func(*jobspec.Array)
		want  model.JobState
		exit  int
	}{
		{"all well", []int{0, 0, 0}, nil, model.Completed, 0},
		{"one failed", []int{0, 7, 3}, nil, model.Failed, 7},
		{"one taken out", []int{0, -1, 0}, nil, model.Cancelled, 0},
		{"one taken out, one failed", []int{0, -1, 7}, nil, model.Failed, 7},
		{"all taken out", []int{-1, -1, -1}, nil, model.Cancelled, 0},
		{"failures within the limit", []int{1, 0, 0}, func(a *jobspec.Array) { n := 1; a.MaxFailures = &n }, model.Failed, 1},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.parent(1, 1, array("0-2", func(a *jobspec.Array) {
			if c.edit != nil {
				c.edit(a)
			}
		}))
		for i, exitCode := range c.codes {
			if exitCode < 0 {
				w.ok(w.control2(model.VerbCancel, id, fmt.Sprint(i+1)))
				continue
			}
			w.ok(w.make(id, i+1, "n1"))
			w.run(id + model.JobID(i+1))
		}
		for i, exitCode := range c.codes {
			if exitCode >= 0 {
				w.state(id, model.Running)
				w.exit(id+model.JobID(i+1), exitCode)
			}
		}
		if j := w.job(id); j.State != c.want || j.ExitCode != c.exit || j.Seq != w.s.v.LastSeq() {
			t.Errorf("%s: ended as %s with code %d and number %d, want %s and %d", c.name, j.State, j.ExitCode, j.Seq, c.want,
				c.exit)
		}
	}
}

// TestWhatFollowsAnIncompleteArray takes one element out of arrays, while it waits or runs, by a user or because
// others are better. It notices dependents that start although an element of the array is missing, and
// arrays that count a pruned element as missing.
func TestWhatFollowsAnIncompleteArray(t *testing.T) {
	const goes = model.Pending
	stop := func(a *jobspec.Array) { a.Stop = &jobspec.ArrayStop{Metric: "loss", AtStep: 1, Keep: "top 1"} }
	plain := func(*jobspec.Array) {}
	for name, c := range map[string]struct {
		edit    func(*jobspec.Array)
		runs    bool // the element that is taken out
		pruned  bool
		want    model.JobState
		ok, not model.JobState // of what depends on success, and on failure
	}{
		"while it waits":                   {plain, false, false, model.Cancelled, model.Cancelled, goes},
		"while it runs":                    {plain, true, false, model.Cancelled, model.Cancelled, goes},
		"pruned while it waits":            {plain, false, true, model.Completed, goes, model.Cancelled},
		"pruned while it runs":             {plain, true, true, model.Completed, goes, model.Cancelled},
		"by the rule of the array":         {stop, true, true, model.Completed, goes, model.Cancelled},
		"with the rule, while it waits":    {stop, false, false, model.Cancelled, model.Cancelled, goes},
		"with the rule, while it runs":     {stop, true, false, model.Cancelled, model.Cancelled, goes},
		"by the rule, before it was begun": {stop, false, true, model.Completed, goes, model.Cancelled},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.parent(1, 1, array("0-2", c.edit))
		ok, not := w.depends(fmt.Sprint("afterok:", id)), w.depends(fmt.Sprint("afternotok:", id))
		whatever := w.depends(fmt.Sprint("afterany:", id))
		each := w.depends(fmt.Sprint("aftercorr:", id), array("0-2"))
		w.ok(w.make(id, 1, "n1"))
		w.run(id + 1)
		if c.runs {
			w.ok(w.make(id, 2, "n1"))
			w.run(id + 2)
		}
		w.must(ControlJobs{Verb: model.VerbCancel, By: alice.UID, Pruned: c.pruned,
			Targets: []Target{{ID: id, Tasks: ranges.Span(2, 2)}}})
		if c.runs {
			w.report(id+2, 0, model.WorkerExited, signal(15))
		}
		w.ok(w.make(id, 3, "n1"))
		w.run(id + 3)
		w.exit(id+1, 0)
		w.exit(id+3, 0)
		for _, n := range []int{1, 3} {
			w.ok(w.make(each, n, "n1"))
			w.run(each + model.JobID(n))
			w.exit(each+model.JobID(n), 0)
		}
		for of, want := range map[model.JobID]model.JobState{id: c.want, ok: c.ok, not: c.not, whatever: goes, each: c.want} {
			if j := w.job(of); j.State != want || want == goes && j.Blocked() {
				t.Errorf("%s: job %d is %s, blocked %v; want %s", name, of, j.State, j.Blocked(), want)
			}
		}
		if text := w.job(id).Reason.Text; c.want == model.Cancelled && text != "1 of its 3 elements were cancelled" {
			t.Errorf("%s: the reason is %q", name, text)
		}
	}
}

func TestMaxFailures(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-9", func(a *jobspec.Array) { n := 0; a.MaxFailures = &n }))
	for n := range 3 {
		w.ok(w.make(id, n+1, "n1"))
		w.run(id + model.JobID(n+1))
	}
	w.exit(id+2, 1)
	w.family(id, "waiting  dropped 4-10: 2 live 0 completed 1 failed 0 cancelled")
	w.refused(w.make(id, 4, "n1"), model.ErrWrongState)
	w.exit(id+1, 0)
	w.exit(id+3, 0)
	w.state(id, model.Failed)
}

func TestMaxParallel(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-9", func(a *jobspec.Array) { a.MaxParallel = 2 }), func(j *jobspec.Job) {
		j.Restart = &jobspec.Restart{Attempts: 1, Delay: 5}
	})
	start := func(n int) Action {
		return &StartJob{Job: id, TaskNumber: n, Places: []model.Place{{Node: "n1", GPUs: []int{n}}}}
	}
	errs := w.must(CommitPlan{Actions: []Action{start(1), start(2), start(3), start(1)}}).([]error)
	w.ok(errs[0])
	w.ok(errs[1])
	w.refused(errs[2], model.ErrMaxParallel)
	w.refused(errs[3], model.ErrWrongState)
	w.run(id + 1)
	w.exit(id+1, 1)
	w.state(id+1, model.Pending)
	w.refused(w.make(id, 3, "n1"), model.ErrMaxParallel) // the one that is tried again still counts
	w.wait(5)
	w.ok(w.start(id+1, "n1"))
	w.run(id + 1)
	w.exit(id+1, 0)
	w.ok(w.make(id, 3, "n1"))
}

func TestHoldMembers(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-9"))
	w.ok(w.control2(model.VerbHold, id, "2-4"))
	w.refused(w.make(id, 3, "n1"), model.ErrNotEligible)
	w.ok(w.make(id, 1, "n1"))
	admin := func(verb model.Verb, tasks ranges.Ranges) error {
		return w.must(ControlJobs{Verb: verb, Targets: []Target{{id, tasks}}, By: 0,
			Admin: true}).([]model.ControlResult)[0].Err
	}
	w.ok(admin(model.VerbHold, ranges.Span(4, 6)))
	w.ok(w.control2(model.VerbRelease, id, "2,4"))
	w.ok(w.make(id, 2, "n1"))
	w.refused(w.make(id, 4, "n1"), model.ErrNotEligible)
	w.refused(w.control2(model.VerbRelease, id, "4-5"), model.ErrHeldByAdmin)
	w.refused(w.control2(model.VerbRelease, id, "9"), model.ErrWrongState)
	w.refused(w.control2(model.VerbHold, id, "11"), model.ErrNoTask)
	w.ok(w.control2(model.VerbHold, id, ""))
	if w.job(id).Hold != model.HeldByUser {
		t.Fatal("the parent is not held")
	}
	w.refused(w.make(id, 7, "n1"), model.ErrNotEligible)
	w.ok(w.control2(model.VerbRelease, id, "7"))
	w.ok(w.make(id, 7, "n1"))
	w.refused(w.make(id, 8, "n1"), model.ErrNotEligible)
	w.ok(admin(model.VerbRelease, nil))
	w.ok(w.make(id, 5, "n1"))
	w.ok(w.make(id, 8, "n1"))
}

func TestControlByMembersID(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-9"))
	w.ok(w.make(id, 1, "n1"))
	w.run(id + 1)
	w.ok(w.control(model.VerbCancel, alice.UID, false, id+3)) // made or not, an id names its task
	w.ok(w.control(model.VerbRequeue, alice.UID, false, id+1))
	w.exit(id+1, 0)
	w.state(id+1, model.Pending)
	w.family(id, "waiting 2,4-10 dropped 3: 1 live 0 completed 0 failed 0 cancelled")
	w.refused(w.control(model.VerbCancel, alice.UID, false, id+3), model.ErrWrongState)
	w.refused(w.control(model.VerbCancel, alice.UID, false, id+11), model.ErrNoJob)
	w.ok(w.control2(model.VerbCancel, id, "1-10"))
	w.state(id, model.Cancelled)
}

func TestCancelWithSignal(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	got := w.must(ControlJobs{Verb: model.VerbCancel, Targets: []Target{{ID: id}}, By: alice.UID,
		Signal: "SIGUSR1"}).([]model.ControlResult)[0]
	w.ok(got.Err)
	if stop := w.job(id).Live().Stop; stop.Signal != "SIGUSR1" || stop.Cause != model.CauseCancelled {
		t.Errorf("stopped with %+v", stop)
	}
	for _, c := range []ControlJobs{
		{Verb: model.VerbCancel, Signal: "SIGWHAT"}, {Verb: model.VerbHold, Signal: "SIGTERM"},
	} {
		if _, err := w.apply(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}

// TestCancelledBy notices a job that names another user than the first one that cancelled it, or a
// user although none did. It also notices array tasks that name no user when the array was
// cancelled as a whole.
func TestCancelledBy(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	by := func(id model.JobID, want int64) {
		t.Helper()
		got := int64(-1)
		if uid := w.job(id).CancelledBy.UID(); uid != nil {
			got = int64(*uid)
		}
		if got != want {
			t.Errorf("job %d is cancelled by %d, not %d", id, got, want)
		}
	}
	const root, none = 0, -1
	waits, runs, early := w.submit(1, 1), w.running(1, []string{"n1"}), w.running(1, []string{"n1"})
	by(runs, none)
	w.ok(w.control(model.VerbCancel, root, true, waits))
	w.ok(w.control(model.VerbCancel, bob.UID, true, runs))
	w.ok(w.control(model.VerbCancel, alice.UID, false, runs)) // it changes nothing
	w.exit(runs, 3)
	w.must(ControlJobs{Verb: model.VerbCancel, Targets: []Target{{ID: early}}, Admin: true, System: true})
	for id, uid := range map[model.JobID]int64{waits: root, runs: int64(bob.UID), early: none} {
		by(id, uid)
	}
	w.state(runs, model.Cancelled)

	again := w.running(1, []string{"n1"})
	w.ok(w.control(model.VerbRequeue, alice.UID, false, again))
	by(again, none)

	array := w.parent(1, 1, array("0-9"))
	for n := range 2 {
		w.ok(w.make(array, n+1, "n1"))
		w.run(array + model.JobID(n+1))
	}
	w.ok(w.control(model.VerbRequeue, alice.UID, false, array+1))
	w.exit(array+1, 0)
	w.state(array+1, model.Pending)
	w.ok(w.control2(model.VerbCancel, array, "4-5"))
	by(array, none)
	by(array+2, none)
	w.ok(w.make(array, 3, "n1"))
	by(array+3, none)
	w.ok(w.control(model.VerbCancel, root, true, array))
	for _, id := range []model.JobID{array, array + 1, array + 2, array + 3} {
		by(id, root)
	}
}

func TestPipeline(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, taskGroups("prep", "train<prep", "eval<train:ok", "sorry<train:failed"), func(j *jobspec.Job) {
		j.Groups[1].Count, j.Groups[1].TimeLimit = 2, 47
		j.Groups[1].MaxWorkersPerNode = 2
		j.Groups[2].Restart = &jobspec.Restart{Attempts: 1, Delay: 1}
		j.TimeLimit = 50
	})
	train := w.job(id + 2)
	if train.Workers != 2 || train.Limit != 47 || train.GroupIndex() != 1 || w.job(id+1).Limit != 50 {
		t.Fatalf("group train is %+v", train)
	}
	w.refused(w.start(id+2, "n1", "n1"), model.ErrNotEligible)
	w.refused(w.make(id, 1, "n1"), model.ErrWrongState)
	w.ok(w.start(id+1, "n1"))
	w.run(id + 1)
	w.state(id, model.Running)
	w.exit(id+1, 0)
	c := &StartJob{Job: id + 2, Port: 20000, Places: []model.Place{{Node: "n1", GPUs: []int{0}},
		{Node: "n1", GPUs: []int{1}}}}
	w.ok(w.plan(c))
	w.run(id + 2)
	w.exit(id+2, 0)
	w.state(id+4, model.Cancelled)
	w.ok(w.start(id+3, "n1"))
	w.run(id + 3)
	w.exit(id+3, 5)
	w.state(id+3, model.Pending) // its group retries, the job does not
	w.wait(2)
	w.ok(w.start(id+3, "n1"))
	w.run(id + 3)
	w.exit(id+3, 0)
	w.state(id, model.Completed)
	w.family(id, "waiting  dropped : 0 live 3 completed 0 failed 1 cancelled")
}

func TestPipelineOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world, id model.JobID)
		want model.JobState
	}{
		{"a group fails", func(w *world, id model.JobID) {
			w.ok(w.start(id+1, "n1"))
			w.run(id + 1)
			w.exit(id+1, 1)
		}, model.Failed},
		{"cancelled whole", func(w *world, id model.JobID) { w.ok(w.control(model.VerbCancel, alice.UID, false, id)) },
			model.Cancelled},
		{"one group cancelled", func(w *world, id model.JobID) {
			w.ok(w.control(model.VerbCancel, alice.UID, false, id+2))
			w.ok(w.start(id+1, "n1"))
			w.run(id + 1)
			w.exit(id+1, 0)
		}, model.Cancelled},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.parent(1, 1, taskGroups("prep", "train<prep"))
		c.do(w, id)
		if j := w.job(id); j.State != c.want {
			t.Errorf("%s: ended as %s %+v, want %s", c.name, j.State, j.Children, c.want)
		}
	}
}

func TestUpdateReachesMembers(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-4"), func(j *jobspec.Job) { j.Restart = &jobspec.Restart{Attempts: 3, Delay: 1} })
	w.ok(w.make(id, 1, "n1"))
	w.ok(w.make(id, 2, "n1"))
	w.run(id + 1)
	w.exit(id+1, 1)
	priority, limit := 80, jobspec.Seconds(1234)
	w.ok(w.must(UpdateJobs{IDs: []model.JobID{id}, By: alice.UID, Priority: &priority,
		TimeLimit: &limit}).([]model.ControlResult)[0].Err)
	w.ok(w.make(id, 3, "n1"))
	for n, want := range []int{80, 80, 50, 80} {
		if j := w.job(id + model.JobID(n)); int(j.Priority) != want || (j.Limit == 1234) != (want == 80) {
			t.Errorf("task %d has priority %d and limit %d", n, j.Priority, j.Limit)
		}
	}
}

// Tasks leave the state before their parent, which knows enough to go on without them, and all
// ids stay theirs.
func TestTrimMembers(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-3"))
	for n := range 2 {
		w.ok(w.make(id, n+1, "n1"))
		w.run(id + model.JobID(n+1))
		w.exit(id+model.JobID(n+1), 0)
	}
	w.must(TrimHistory{UpTo: w.s.v.LastSeq()})
	if w.job(id+1) != nil || w.job(id) == nil {
		t.Fatal("the tasks are still there, or the parent is gone")
	}
	if got := w.submit(1, 1); got != id+5 {
		t.Errorf("a new job got id %d", got)
	}
	back, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	w.ok(err)
	w.ok(back.Check())
	w.ok(w.make(id, 3, "n1"))
	w.ok(w.control2(model.VerbCancel, id, ""))
	w.report(id+3, 0, model.WorkerExited)
	w.state(id, model.Cancelled)
	w.must(TrimHistory{UpTo: w.s.v.LastSeq()})
	if w.job(id) != nil || w.s.v.Weight() != 1 {
		t.Errorf("after all has left, the state counts %d jobs", w.s.v.Weight())
	}
}

func TestKeyOfRecords(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	jobs := []*jobspec.Job{testSpec(1, 1), testSpec(1, 1), testSpec(1, 1)}
	array("0-9")(jobs[0])
	taskGroups("a", "b")(jobs[1])
	c := SubmitJobs{Owner: alice, Key: "k", Digest: "d", Jobs: jobs}
	first := w.must(c).([]model.JobID)
	if again := w.must(c).([]model.JobID); !slices.Equal(first, again) || !slices.Equal(first, []model.JobID{1, 12, 15}) {
		t.Fatalf("submitted as %v, again as %v", first, again)
	}
	back, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	w.ok(err)
	if again, err := back.SubmittedWithKey(c.Owner.UID, c.Key, c.Digest); err != nil || !slices.Equal(first, again) {
		t.Fatalf("restored, the key stands for %v, %v", again, err)
	}
}

func TestRefusedSpecs(t *testing.T) {
	no := false
	for _, c := range []struct {
		edit func(*jobspec.Job)
		want string
	}{
		{func(j *jobspec.Job) { j.Groups[0].Gang, j.Groups[0].Count = &no, 2 }, "gang = false"},
		{func(j *jobspec.Job) { j.Groups[0].OnWorkerFailure = "restart_worker" }, "groups[0].on_worker_failure"},
		{func(j *jobspec.Job) { j.Groups[0].OnWorkerFailure = "x" }, "restart_group or ignore"},
		{func(j *jobspec.Job) { j.Groups[0].Success = "x" }, "all, leader or any"},
		{array(""), "does not name its elements"},
		{array("0-100000"), "more than 100000 elements"},
		{array("3-1"), "goes down"},
		{func(j *jobspec.Job) { array("0-1")(j); taskGroups("a", "b")(j) }, "an array of jobs with several groups"},
		{taskGroups("a", "b<c"), `no group "c"`},
		{taskGroups("a", "b<a:well"), "a:ok, a:any, a:failed or a:started"},
		{taskGroups("a<b", "b<a"), "wait for each other"},
		{taskGroups("a", "a"), `the group "a" is given twice`},
		{func(j *jobspec.Job) { taskGroups("a", "b<a")(j); j.GangScope = "job" }, "gang_scope"},
		{func(j *jobspec.Job) { array("0-1", func(a *jobspec.Array) { a.Order = "x" })(j) }, "index or random"},
		{func(j *jobspec.Job) { j.Array = &jobspec.Array{Columns: []string{"a", "b"}, Rows: [][]string{{"1"}}} },
			"1 values for 2 parameters"},
	} {
		w := newWorld(t)
		spec := testSpec(1, 1)
		c.edit(spec)
		_, err := w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want something about %q", err, c.want)
		}
	}
}

func TestSuccess(t *testing.T) {
	exits := func(w *world, id model.JobID, worker, exitCode int) {
		w.report(id, worker, model.WorkerExited, code(exitCode))
	}
	group := func(success, onFailure string) func(*jobspec.Job) {
		return func(j *jobspec.Job) { j.Groups[0].Success, j.Groups[0].OnWorkerFailure = success, onFailure }
	}
	for _, c := range []struct {
		name    string
		edit    func(*jobspec.Job)
		play    func(w *world, id model.JobID)
		want    model.JobState
		stopped bool // after the first exit
	}{
		{"all", group("all", ""), func(w *world, id model.JobID) { exits(w, id, 1, 0) }, model.Completed, false},
		{"leader ends well", group("leader", ""), func(w *world, id model.JobID) { exits(w, id, 0, 0) }, model.Completed,
			true},
		{"leader fails", group("leader", ""), func(w *world, id model.JobID) { exits(w, id, 0, 1) }, model.Failed, true},
		{"any", group("any", ""), func(w *world, id model.JobID) { exits(w, id, 1, 0) }, model.Completed, true},
		{"one fails", group("", ""), func(w *world, id model.JobID) { exits(w, id, 1, 4) }, model.Failed, true},
		{"failure ignored, all needed", group("all", "ignore"), func(w *world, id model.JobID) { exits(w, id, 1, 4) },
			model.Failed, false},
		{"failure ignored, any will do", group("any", "ignore"), func(w *world, id model.JobID) { exits(w, id, 1, 4) },
			model.Completed, false},
		{"failure ignored, leader counts", group("leader", "ignore"), func(w *world, id model.JobID) { exits(w, id, 1, 4) },
			model.Completed, false},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		id := w.parent(2, 1, c.edit)
		w.ok(w.start(id, "n1", "n2"))
		w.run(id)
		c.play(w, id)
		if got := w.job(id).Live().Stop != nil; got != c.stopped {
			t.Errorf("%s: the rest is being stopped: %v, want %v", c.name, got, c.stopped)
		}
		for i := range w.job(id).Live().Workers {
			if w.job(id).State.Final() || w.job(id).Live().Workers[i].State.Final() {
				continue
			}
			if c.stopped {
				w.report(id, i, model.WorkerExited, signal(15))
			} else {
				exits(w, id, i, 0)
			}
		}
		j := w.job(id)
		if j.State != c.want || c.want == model.Completed && (j.ExitCode != 0 || j.Signal != 0) {
			t.Errorf("%s: ended as %s, code %d, signal %d, want %s", c.name, j.State, j.ExitCode, j.Signal, c.want)
		}
	}
}

// A cycle's plan copies a parent job once, however many of its tasks it starts.
func TestPlanCopiesRecordOnce(t *testing.T) {
	w := newWorld(t)
	n := testNode("n1", 0)
	n.Cores, n.Memory = 1000, 1<<42
	w.must(RegisterNode{Node: n})
	id := w.parent(1, 0, array("0-199", func(a *jobspec.Array) { a.Order = "random" }))
	var p CommitPlan
	turns := w.job(id).TaskOrder()
	for m := turns.Next(); m != 0; m = turns.Next() {
		p.Actions = append(p.Actions, &StartJob{Job: id, TaskNumber: m, Places: []model.Place{{Node: "n1"}}})
	}
	if len(p.Actions) != 200 {
		t.Fatalf("%d turns", len(p.Actions))
	}
	for _, err := range w.must(p).([]error) {
		w.ok(err)
	}
	w.family(id, "waiting  dropped : 200 live 0 completed 0 failed 0 cancelled")
}

// TestTasksUseTheReservationOfTheirParent: what is reserved for an array is there for its tasks,
// and for no other job.
func TestTasksUseTheReservationOfTheirParent(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 4, array("0-3"))
	other := w.submit(1, 4)
	w.ok(w.plan(&Reserve{Job: id,
		Claims: []model.Claim{{Node: "n1", Resources: model.Vector{GPUs: 8000}}}, Until: 1 << 40}))
	if err := w.start(other, "n1"); err == nil {
		t.Error("another job starts in what is reserved for the array")
	}
	w.ok(w.make(id, 1, "n1"))
}

// TestSomeTasksAreCancelled: the rest of an array stays held, and keeps the room that is reserved
// for it. When no task is left to start, both end.
func TestSomeTasksAreCancelled(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.parent(1, 1, array("0-9"))
	w.ok(w.make(id, 1, "n1"))
	w.run(id + 1)
	w.ok(w.plan(&Reserve{Job: id, Until: 1 << 40,
		Claims: []model.Claim{{Node: "n1", Resources: model.Vector{GPUs: 1000}}}}))
	w.ok(w.control2(model.VerbCancel, id, "2-5"))
	if w.s.v.Reservation(id) == nil {
		t.Error("the room of the tasks that are left is given up")
	}
	w.ok(w.control2(model.VerbCancel, id, "6-10"))
	if w.s.v.Reservation(id) != nil {
		t.Error("room is kept for tasks that were cancelled")
	}
	w.state(id, model.Running)

	id = w.parent(1, 1, array("0-9"))
	w.ok(w.make(id, 1, "n1"))
	w.ok(w.control2(model.VerbHold, id, ""))
	w.ok(w.control2(model.VerbCancel, id, "2-5"))
	if w.job(id).Hold != model.HeldByUser {
		t.Error("the tasks that are left are not held any more")
	}
	w.ok(w.control2(model.VerbCancel, id, "6-10"))
	if w.job(id).Hold != model.NotHeld {
		t.Error("an array of which nothing waits is held")
	}
}

// TestOneSubmission has jobs that wait for elements of an array of the same submission, one without
// jobs, and one with too many.
func TestOneSubmission(t *testing.T) {
	w := newWorld(t)
	w.submit(1, 1)
	list := func(edits ...func(*jobspec.Job)) []*jobspec.Job {
		var jobs []*jobspec.Job
		for _, edit := range edits {
			spec := testSpec(1, 1)
			edit(spec)
			jobs = append(jobs, spec)
		}
		return jobs
	}
	next := w.s.v.LastJob() + 1 // of the array; its elements 0 to 3 are the ids behind it
	ids := w.must(SubmitJobs{Owner: alice, Jobs: list(array("0-3"), needs(fmt.Sprintf("afterok:%d_2", next)),
		needs(fmt.Sprintf("afterok:%d_3", next)), array("5-6"), needs(fmt.Sprintf("afterok:%d_6", next+7)))}).([]model.JobID)
	for i, want := range map[int]model.JobID{1: next + 3, 2: next + 4, 4: next + 9} {
		if got := w.job(ids[i]).Dependencies; len(got) != 1 || len(got[0].Jobs) != 1 || got[0].Jobs[0] != want {
			t.Errorf("job %d waits for %+v, not for job %d", ids[i], got, want)
		}
	}
	last := w.s.v.LastJob()
	_, err := w.apply(SubmitJobs{Owner: alice, Jobs: list(array("0-3"), needs(fmt.Sprintf("afterok:%d_4", last+1)))})
	w.refused(err, model.ErrNoJob)
	if spec := (*model.SpecError)(nil); !errors.As(errorOf(w.apply(SubmitJobs{Owner: alice})), &spec) {
		t.Error("a submission of no jobs is accepted")
	}
	var limit *model.LimitError
	many := SubmitJobs{Owner: alice, Jobs: make([]*jobspec.Job, model.MaxJobsPerCall+1)}
	if !errors.As(errorOf(w.apply(many)), &limit) || w.s.v.LastJob() != last {
		t.Errorf("a submission of too many jobs is accepted; the last job is %d, not %d", w.s.v.LastJob(), last)
	}
}

func errorOf(_ any, err error) error { return err }
