package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

var bob = model.Identity{UID: 1001, GID: 1001, User: "bob"}

// submit2 adds one job as owner, with what the history is said to know.
func (w *world) submit2(owner model.Identity, facts []PastJob, edit ...func(*jobspec.Job)) (model.JobID, error) {
	w.t.Helper()
	spec := testSpec(1, 1)
	for _, e := range edit {
		e(spec)
	}
	got, err := w.apply(SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}, Facts: facts})
	if err != nil {
		return 0, err
	}
	return got.([]model.JobID)[0], nil
}

// depends submits a job of alice's that depends on others: "afterok:1,2", "after:1+60",
// "afterany?1,2" for any of them, "singleton".
func (w *world) depends(on string, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	id, err := w.submit2(alice, nil, append(edit, needs(on))...)
	w.ok(err)
	return id
}

func needs(on string) func(*jobspec.Job) {
	return func(j *jobspec.Job) {
		for part := range strings.FieldsSeq(on) {
			d := jobspec.Dependency{}
			sep := strings.IndexAny(part+":", ":?")
			d.Type = part[:sep]
			if rest := part[min(sep, len(part)):]; rest != "" {
				if rest[0] == '?' {
					d.Match = "any"
				}
				names, delay, _ := strings.Cut(rest[1:], "+")
				_, _ = fmt.Sscan(delay, &d.Delay)
				d.Jobs = strings.Split(names, ",")
			}
			j.Dependencies = append(j.Dependencies, d)
		}
	}
}

func named2(name string) func(*jobspec.Job) { return func(j *jobspec.Job) { j.Name = name } }

// finished runs a job to its end on a node of its own.
func (w *world) finished(id model.JobID, exit int) {
	w.t.Helper()
	node := fmt.Sprintf("own%d", w.index)
	w.node(node, 8)
	w.ok(w.start(id, node))
	w.run(id)
	w.report(id, 0, model.WorkerExited, code(exit))
}

// TestDependencyTypes says for every type what each way that the target can go means for the job
// that depends on it.
func TestDependencyTypes(t *testing.T) {
	steps := []struct {
		name string
		do   func(w *world, id model.JobID)
	}{
		{"assigned", func(w *world, id model.JobID) { w.node("n", 8); w.ok(w.start(id, "n")) }},
		{"started", func(w *world, id model.JobID) { w.node("n", 8); w.ok(w.start(id, "n")); w.run(id) }},
		{"requeued", func(w *world, id model.JobID) {
			w.node("n", 8)
			w.ok(w.start(id, "n"))
			w.run(id)
			w.ok(w.control(model.VerbRequeue, 1000, false, id))
			w.report(id, 0, model.WorkerExited)
			w.state(id, model.Pending)
		}},
		{"ended well", func(w *world, id model.JobID) { w.finished(id, 0) }},
		{"failed", func(w *world, id model.JobID) { w.finished(id, 3) }},
		{"cancelled", func(w *world, id model.JobID) { w.ok(w.control(model.VerbCancel, 1000, false, id)) }},
	}
	// w: it waits on; g: it may go; x: it is cancelled
	want := map[string]string{
		model.NeedAfter: "wggggg", model.NeedAfterOK: "wwwgxx", model.NeedAfterAny: "wwwggg", model.NeedAfterNotOK: "wwwxgg",
		model.NeedSingleton: "wwwggg",
	}
	for kind, outcomes := range want {
		for i, step := range steps {
			w := newWorld(t)
			target := w.submit(1, 1)
			on := kind
			if kind != model.NeedSingleton {
				on += fmt.Sprintf(":%d", target)
			}
			id := w.depends(on)
			if j := w.job(id); !j.Blocked() || !groups.KeyOf(j).Held {
				t.Fatalf("%s: it does not wait: %+v", kind, j)
			}
			step.do(w, target)
			got := "g"
			switch j := w.job(id); {
			case j.State == model.Cancelled:
				got = "x"
				if j.Reason.Code != model.ReasonNeverMet || j.Reason.For != target {
					t.Errorf("%s, %s: cancelled for %+v", kind, step.name, j.Reason)
				}
			case j.Blocked():
				got = "w"
			case groups.KeyOf(j).Held:
				t.Errorf("%s, %s: it may go but its group says that it is held", kind, step.name)
			}
			if got != outcomes[i:i+1] {
				t.Errorf("%s, %s: got %s, want %s", kind, step.name, got, outcomes[i:i+1])
			}
		}
	}
}

// TestDependsOnPast submits jobs that depend on jobs that have ended, in the state and only in the
// history.
func TestDependsOnPast(t *testing.T) {
	w := newWorld(t)
	well, ill := w.submit(1, 1), w.submit(1, 1)
	w.finished(well, 0)
	w.finished(ill, 1)
	check := func(how string, facts []PastJob) {
		t.Helper()
		for on, want := range map[string]model.JobState{
			fmt.Sprint("afterok:", well): model.Pending, fmt.Sprint("afterok:", ill): model.Cancelled,
			fmt.Sprint("afternotok:", ill):  model.Pending,
			fmt.Sprint("afternotok:", well): model.Cancelled, fmt.Sprint("afterany:", ill): model.Pending,
			fmt.Sprintf("afterok?%d,%d", ill, well): model.Pending,
			fmt.Sprintf("afterok:%d,%d", well, ill): model.Cancelled, fmt.Sprint("after:", ill): model.Pending,
		} {
			id, err := w.submit2(alice, facts, needs(on))
			w.ok(err)
			if j := w.job(id); j.State != want || want == model.Pending && j.Blocked() {
				t.Errorf("%s, %s: %s %+v", how, on, j.State, j.Dependencies)
			}
		}
	}
	check("in the state", nil)
	w.must(TrimHistory{UpTo: 2})
	_, err := w.submit2(alice, nil, needs("afterok:1"))
	w.refused(err, ErrForgotten)
	known := []PastJob{{ID: well, Ended: model.Completed, UID: 1000}, {ID: ill, Ended: model.Failed, Code: 1, UID: 1000}}
	check("in the history", known)
	_, err = w.submit2(bob, known, needs("afterok:1"))
	w.refused(err, model.ErrNotOwner)
	_, err = w.submit2(alice, []PastJob{{ID: 1, Missing: true}}, needs("afterok:1"))
	w.refused(err, model.ErrNoJob)
}

func TestDependencyRefusals(t *testing.T) {
	w := newWorld(t)
	mine := w.submit(1, 1)
	for on, want := range map[string]error{
		"afterok:99": model.ErrNoJob, "afterok:nobody": model.ErrNoJob, "afterok:1_3": model.ErrNoJob, "afterok:-1": nil,
		"afterok:0":    nil,
		"afterwards:1": nil, "aftercorr:1": nil, "afterok": nil, "singleton:1": nil, "after:1+-5": nil,
	} {
		_, err := w.submit2(alice, nil, needs(on))
		var spec *model.SpecError
		if err == nil || want != nil && !errors.Is(err, want) || want == nil && !errors.As(err, &spec) {
			t.Errorf("%s: got %v, want %v", on, err, want)
		}
	}
	_, err := w.submit2(bob, nil, needs(fmt.Sprint("afterok:", mine)))
	w.refused(err, model.ErrNotOwner)
	_, err = w.submit2(bob, nil, needs("afterok:j")) // alice's j is none of bob's
	w.refused(err, model.ErrNoJob)
	cmd := SubmitJobs{Owner: bob, Jobs: []*jobspec.Job{testSpec(1, 1)}, Admin: true}
	needs(fmt.Sprint("afterok:", mine))(cmd.Jobs[0])
	w.must(cmd)
}

// TestNamesMeanTheNewest resolves names, within one submission too.
func TestNamesMeanTheNewest(t *testing.T) {
	w := newWorld(t)
	old := w.submit(1, 1, named2("prep"))
	newer := w.submit(1, 1, named2("prep"))
	if got := w.job(w.depends("afterok:prep")).Dependencies[0].Jobs; !slices.Equal(got, []model.JobID{newer}) {
		t.Errorf("prep is %v, not %d", got, newer)
	}
	a, b, c := testSpec(1, 1), testSpec(1, 1), testSpec(1, 1)
	a.Name, b.Name, c.Name = "prep", "train", "train"
	needs("afterok:prep")(b)
	needs("afterok:train singleton")(c)
	ids := w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{a, b, c}}).([]model.JobID)
	if got := w.job(ids[1]).Dependencies[0].Jobs; !slices.Equal(got, ids[:1]) {
		t.Errorf("prep of the same submission is %v, not %v", got, ids[:1])
	}
	if got := w.job(ids[2]).Dependencies; len(got) != 2 || got[0].Jobs[0] != ids[1] || got[1].Jobs[0] != ids[1] {
		t.Errorf("train is %+v, not %d", got, ids[1])
	}
	for _, id := range []model.JobID{ids[0], newer} {
		w.ok(w.control(model.VerbCancel, 1000, false, id))
	}
	w.must(TrimHistory{UpTo: 99})
	if got := w.job(w.depends("afterok:prep")).Dependencies[0].Jobs; !slices.Equal(got, []model.JobID{old}) {
		t.Errorf("prep is %v, not %d, the newest in the queue", got, old)
	}
}

// TestSingletonWaitsForAll lets a singleton wait until every older job of its name has ended, in
// whatever order.
func TestSingletonWaitsForAll(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.submit(1, 1), w.submit(1, 1), w.submit(1, 1)
	s1 := w.depends("singleton")
	s2 := w.depends("singleton")
	for i, id := range []model.JobID{b, c, a} {
		if !w.job(s1).Blocked() {
			t.Fatalf("it goes after %d of 3 have ended", i)
		}
		w.finished(id, i)
	}
	if w.job(s1).Blocked() || !w.job(s2).Blocked() {
		t.Fatal("the first singleton should go and the second wait for it")
	}
	w.finished(s1, 1)
	if w.job(s2).Blocked() {
		t.Fatal("the second singleton still waits")
	}
	if w.submit(1, 1, named2("other")); w.job(w.depends("singleton", named2("another"))).Blocked() {
		t.Fatal("a singleton waits for jobs of another name")
	}
}

func TestDependencyDelay(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	target := w.submit(1, 1)
	id := w.depends(fmt.Sprintf("after:%d+60", target))
	w.wait(5)
	w.ok(w.start(target, "n"))
	w.run(target)
	j := w.job(id)
	if j.Eligible != w.at+60_000 || j.Reason.Code != model.ReasonDependency || j.Reason.Until != j.Eligible {
		t.Fatalf("eligible at %d with %+v, want %d", j.Eligible, j.Reason, w.at+60_000)
	}
	w.refused(w.start(id, "n"), model.ErrNotEligible)
	w.wait(60)
	w.ok(w.start(id, "n"))
}

func TestBlockedIsNotStarted(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	target := w.submit(1, 1)
	id := w.depends(fmt.Sprint("afterok:", target))
	w.refused(w.start(id, "n"), model.ErrNotEligible)
	v := w.s.View()
	if why := v.DependencyReason(v.Job(id)); why.For != target ||
		why.Sentence() != "it waits for job 1 to end well (afterok)" {
		t.Errorf("%q %+v", why.Sentence(), why)
	}
}

// TestNeverHolds holds what can never be met where the job says so, until it is released.
func TestNeverHolds(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	hold := func(j *jobspec.Job) { j.OnDependencyFailure = "hold" }
	target, other := w.submit(1, 1), w.submit(1, 1)
	id := w.depends(fmt.Sprintf("afterok:%d afterany:%d", target, other), hold)
	w.finished(target, 1)
	j := w.job(id)
	if j.Hold != model.HeldNever || j.Reason.Code != model.ReasonNeverMet || len(j.Dependencies) != 1 {
		t.Fatalf("%s %+v %+v", j.Hold, j.Reason, j.Dependencies)
	}
	w.ok(w.control(model.VerbRelease, 1000, false, id))
	w.refused(w.start(id, "n"), model.ErrNotEligible) // the other one is still open
	w.finished(other, 1)
	w.ok(w.start(id, "n"))
	again := w.submit(1, 1)
	kept := w.depends(fmt.Sprint("afterok:", again), hold)
	w.ok(w.control(model.VerbHold, 0, true, kept))
	w.ok(w.control(model.VerbCancel, 1000, false, again))
	if j := w.job(kept); j.Hold != model.HeldByAdmin || !strings.Contains(j.Reason.Sentence(), "no longer be satisfied") {
		t.Fatalf("%s %q", j.Hold, j.Reason.Sentence())
	}
	w.refused(w.control(model.VerbRelease, 1000, false, kept), model.ErrHeldByAdmin)
	past, err := w.submit2(alice, nil, hold, needs(fmt.Sprint("afterok:", target)))
	w.ok(err)
	if j := w.job(past); j.Hold != model.HeldNever {
		t.Fatalf("%s %+v", j.State, j)
	}
}

// TestCascade ends a long chain and a wide fan, which take many entries. Each job ends once, in the
// order of ids, and after a restore, too.
func TestCascade(t *testing.T) {
	const n = 3*jobs.MaxSettled/2 + 7
	for name, on := range map[string]func(i int) string{
		"chain": func(i int) string { return fmt.Sprint("afterok:", i) },
		"fan":   func(int) string { return "afterok:1" },
		"mixed": func(i int) string { return fmt.Sprintf("afterok:%d afterany:%d", 1+i/2, i) },
	} {
		t.Run(name, func(t *testing.T) {
			s := New(cluster.DefaultConfig())
			apply := func(s *Machine, c Command) any {
				got, err := s.Apply(s.Index()+1, Entry{Stamp: model.Stamp{At: 1000}, Command: c})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			apply(s, SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{testSpec(1, 1)}})
			for i := 1; i < n; i += 5000 {
				c := SubmitJobs{Owner: alice}
				for k := i; k < min(n, i+5000); k++ {
					spec := testSpec(1, 1)
					needs(on(k))(spec)
					c.Jobs = append(c.Jobs, spec)
				}
				apply(s, c)
			}
			cancel := ControlJobs{Verb: model.VerbCancel, Targets: targets(1), By: 1000}
			apply(s, cancel)
			if bad := s.Check(); bad != nil {
				t.Fatal(bad)
			}
			if !s.View().HasUnsettled() || len(s.v.Finished(0)) != jobs.MaxSettled+1 {
				t.Fatalf("%d ended in one entry", len(s.v.Finished(0)))
			}
			twin, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, s.View())))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Machine{s, twin, Fork(s.View())} {
				apply(s, TrimHistory{UpTo: 5}) // nothing is forgotten while a job is still to be told
				apply(s, CommitPlan{Actions: []Action{&Settle{}}})
				if s.View().HasUnsettled() || s.v.Trimmed() != 0 || len(s.v.Finished(0)) != n {
					t.Fatalf("%d of %d ended, trimmed %d", len(s.v.Finished(0)), n, s.v.Trimmed())
				}
				if bad := s.Check(); bad != nil {
					t.Fatal(bad)
				}
			}
			for i, j := range s.v.Finished(0) {
				if j.ID != model.JobID(i+1) {
					t.Fatalf("job %d ended as number %d", j.ID, i+1)
				}
			}
			if !bytes.Equal(snapshotOf(t, s.View()), snapshotOf(t, twin.View())) {
				t.Fatal("the restored state went another way")
			}
		})
	}
}

// TestManyJobsThatWaitForTheSame is an attack: 10,000 jobs all wait for the same 1,000 jobs, so
// that each end of one of these would look at ten million jobs. It is refused, in one submission
// and in many, and long chains and wide fans are not.
func TestManyJobsThatWaitForTheSame(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	owner := alice
	var ids []string
	for range 1000 {
		ids = append(ids, strconv.FormatInt(int64(w.submit(1, 1, func(j *jobspec.Job) { j.Name = "t" })), 10))
	}
	submit := func(jobs, each int) error {
		specs := make([]*jobspec.Job, jobs)
		for i := range specs {
			specs[i] = testSpec(1, 1)
			specs[i].Dependencies = []jobspec.Dependency{{Type: model.NeedAfterAny, Jobs: ids[:each]}}
		}
		_, err := w.apply(SubmitJobs{Owner: owner, Jobs: specs})
		return err
	}
	var limit *model.LimitError
	if err := submit(101, 1000); !errors.As(err, &limit) || limit.Max != model.MaxEdgesPerCall {
		t.Errorf("101 jobs that wait for 1,000: %v", err)
	}
	for range 2 {
		if err := submit(50, 1000); err != nil {
			t.Errorf("50 jobs that wait for 1,000: %v", err)
		}
	}
	if err := submit(1, 1000); !errors.As(err, &limit) || limit.Max != model.MaxWaiting/1000 {
		t.Errorf("the 101st job that waits for 1,000: %v", err)
	}
	if err := submit(10_000, 1); err != nil {
		t.Errorf("10,000 jobs that wait for one: %v", err)
	}
	begin := time.Now()
	w.ok(w.control(model.VerbCancel, 1000, false, 1))
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the end of a job that 10,100 wait for takes %v", took)
	}
	if got := w.job(1001).Dependencies[0].Jobs; len(got) != 999 {
		t.Errorf("a job waits for %d jobs after the end of one of 1,000", len(got))
	}
}
