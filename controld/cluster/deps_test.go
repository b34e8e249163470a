package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

var bob = Identity{UID: 1001, GID: 1001, User: "bob"}

// submit2 adds one job as owner, with what the history is said to know.
func (w *world) submit2(owner Identity, facts []Fact, edit ...func(*jobspec.Job)) (JobID, error) {
	w.t.Helper()
	spec := testSpec(1, 1)
	for _, e := range edit {
		e(spec)
	}
	got, err := w.apply(SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}, Facts: facts})
	if err != nil {
		return 0, err
	}
	return got.([]JobID)[0], nil
}

// depends submits a job of alice's that depends on others: "afterok:1,2", "after:1+60", "afterany?1,2" for any of them, "singleton".
func (w *world) depends(on string, edit ...func(*jobspec.Job)) JobID {
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
func (w *world) finished(id JobID, exit int) {
	w.t.Helper()
	node := fmt.Sprintf("own%d", w.index)
	w.node(node, 8)
	w.ok(w.start(id, node))
	w.run(id)
	w.report(id, 0, WorkerExited, code(exit))
}

// TestDependencyTypes says for every type what each way that the target can go means for the job that depends on it.
func TestDependencyTypes(t *testing.T) {
	steps := []struct {
		name string
		do   func(w *world, id JobID)
	}{
		{"assigned", func(w *world, id JobID) { w.node("n", 8); w.ok(w.start(id, "n")) }},
		{"started", func(w *world, id JobID) { w.node("n", 8); w.ok(w.start(id, "n")); w.run(id) }},
		{"requeued", func(w *world, id JobID) {
			w.node("n", 8)
			w.ok(w.start(id, "n"))
			w.run(id)
			w.ok(w.control(VerbRequeue, 1000, false, id))
			w.report(id, 0, WorkerExited)
			w.state(id, Pending)
		}},
		{"ended well", func(w *world, id JobID) { w.finished(id, 0) }},
		{"failed", func(w *world, id JobID) { w.finished(id, 3) }},
		{"cancelled", func(w *world, id JobID) { w.ok(w.control(VerbCancel, 1000, false, id)) }},
	}
	// w: it waits on; g: it may go; x: it is cancelled
	want := map[string]string{
		needAfter: "wggggg", needAfterOK: "wwwgxx", needAfterAny: "wwwggg", needAfterNotOK: "wwwxgg", needSingleton: "wwwggg",
	}
	for kind, outcomes := range want {
		for i, step := range steps {
			w := newWorld(t)
			target := w.submit(1, 1)
			on := kind
			if kind != needSingleton {
				on += fmt.Sprintf(":%d", target)
			}
			id := w.depends(on)
			if j := w.job(id); !j.Blocked() || !groupKey(j).Held {
				t.Fatalf("%s: it does not wait: %+v", kind, j)
			}
			step.do(w, target)
			got := "g"
			switch j := w.job(id); {
			case j.State == Cancelled:
				got = "x"
				if j.Reason.Code != ReasonNeverMet || j.Reason.For != target {
					t.Errorf("%s, %s: cancelled for %+v", kind, step.name, j.Reason)
				}
			case j.Blocked():
				got = "w"
			case groupKey(j).Held:
				t.Errorf("%s, %s: it may go but its group says that it is held", kind, step.name)
			}
			if got != outcomes[i:i+1] {
				t.Errorf("%s, %s: got %s, want %s", kind, step.name, got, outcomes[i:i+1])
			}
		}
	}
}

// TestDependsOnPast submits jobs that depend on jobs that have ended, in the state and only in the history.
func TestDependsOnPast(t *testing.T) {
	w := newWorld(t)
	well, ill := w.submit(1, 1), w.submit(1, 1)
	w.finished(well, 0)
	w.finished(ill, 1)
	check := func(how string, facts []Fact) {
		t.Helper()
		for on, want := range map[string]JobState{
			fmt.Sprint("afterok:", well): Pending, fmt.Sprint("afterok:", ill): Cancelled, fmt.Sprint("afternotok:", ill): Pending,
			fmt.Sprint("afternotok:", well): Cancelled, fmt.Sprint("afterany:", ill): Pending, fmt.Sprintf("afterok?%d,%d", ill, well): Pending,
			fmt.Sprintf("afterok:%d,%d", well, ill): Cancelled, fmt.Sprint("after:", ill): Pending,
		} {
			id, err := w.submit2(alice, facts, needs(on))
			w.ok(err)
			if j := w.job(id); j.State != want || want == Pending && j.Blocked() {
				t.Errorf("%s, %s: %s %+v", how, on, j.State, j.Needs)
			}
		}
	}
	check("in the state", nil)
	w.must(TrimHistory{UpTo: 2})
	_, err := w.submit2(alice, nil, needs("afterok:1"))
	w.refused(err, ErrForgotten)
	known := []Fact{{ID: well, Ended: Completed, UID: 1000}, {ID: ill, Ended: Failed, Code: 1, UID: 1000}}
	check("in the history", known)
	_, err = w.submit2(bob, known, needs("afterok:1"))
	w.refused(err, ErrNotOwner)
	_, err = w.submit2(alice, []Fact{{ID: 1, Missing: true}}, needs("afterok:1"))
	w.refused(err, ErrNoJob)
}

func TestDependencyRefusals(t *testing.T) {
	w := newWorld(t)
	mine := w.submit(1, 1)
	for on, want := range map[string]error{
		"afterok:99": ErrNoJob, "afterok:nobody": ErrNoJob, "afterok:1_3": ErrNoJob, "afterok:-1": ErrNoJob, "afterok:0": ErrNoJob,
		"afterwards:1": nil, "aftercorr:1": nil, "afterok": nil, "singleton:1": nil, "after:1+-5": nil,
	} {
		_, err := w.submit2(alice, nil, needs(on))
		var spec *SpecError
		if err == nil || want != nil && !errors.Is(err, want) || want == nil && !errors.As(err, &spec) {
			t.Errorf("%s: got %v, want %v", on, err, want)
		}
	}
	_, err := w.submit2(bob, nil, needs(fmt.Sprint("afterok:", mine)))
	w.refused(err, ErrNotOwner)
	_, err = w.submit2(bob, nil, needs("afterok:j")) // alice's j is none of bob's
	w.refused(err, ErrNoJob)
	cmd := SubmitJobs{Owner: bob, Jobs: []*jobspec.Job{testSpec(1, 1)}, Admin: true}
	needs(fmt.Sprint("afterok:", mine))(cmd.Jobs[0])
	w.must(cmd)
}

// TestNamesMeanTheNewest resolves names, within one submission too.
func TestNamesMeanTheNewest(t *testing.T) {
	w := newWorld(t)
	old := w.submit(1, 1, named2("prep"))
	newer := w.submit(1, 1, named2("prep"))
	if got := w.job(w.depends("afterok:prep")).Needs[0].Jobs; !slices.Equal(got, []JobID{newer}) {
		t.Errorf("prep is %v, not %d", got, newer)
	}
	a, b, c := testSpec(1, 1), testSpec(1, 1), testSpec(1, 1)
	a.Name, b.Name, c.Name = "prep", "train", "train"
	needs("afterok:prep")(b)
	needs("afterok:train singleton")(c)
	ids := w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{a, b, c}}).([]JobID)
	if got := w.job(ids[1]).Needs[0].Jobs; !slices.Equal(got, ids[:1]) {
		t.Errorf("prep of the same submission is %v, not %v", got, ids[:1])
	}
	if got := w.job(ids[2]).Needs; len(got) != 2 || got[0].Jobs[0] != ids[1] || got[1].Jobs[0] != ids[1] {
		t.Errorf("train is %+v, not %d", got, ids[1])
	}
	for _, id := range []JobID{ids[0], newer} {
		w.ok(w.control(VerbCancel, 1000, false, id))
	}
	w.must(TrimHistory{UpTo: 99})
	if got := w.job(w.depends("afterok:prep")).Needs[0].Jobs; !slices.Equal(got, []JobID{old}) {
		t.Errorf("prep is %v, not %d, the newest in the queue", got, old)
	}
}

// TestSingletonWaitsForAll lets a singleton wait until every older job of its name has ended, in whatever order.
func TestSingletonWaitsForAll(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.submit(1, 1), w.submit(1, 1), w.submit(1, 1)
	s1 := w.depends("singleton")
	s2 := w.depends("singleton")
	for i, id := range []JobID{b, c, a} {
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
	if j.Eligible != w.at+60_000 || j.Reason.Code != ReasonDependency || j.Reason.Until != j.Eligible {
		t.Fatalf("eligible at %d with %+v, want %d", j.Eligible, j.Reason, w.at+60_000)
	}
	w.refused(w.start(id, "n"), ErrNotEligible)
	w.wait(60)
	w.ok(w.start(id, "n"))
}

func TestBlockedIsNotStarted(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	target := w.submit(1, 1)
	id := w.depends(fmt.Sprint("afterok:", target))
	w.refused(w.start(id, "n"), ErrNotEligible)
	v := w.s.View()
	if why := v.Waiting(v.Job(id)); why.For != target || why.Sentence() != "it waits for job 1 to end well (afterok)" {
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
	if j.Hold != HeldNever || j.Reason.Code != ReasonNeverMet || len(j.Needs) != 1 {
		t.Fatalf("%s %+v %+v", j.Hold, j.Reason, j.Needs)
	}
	w.ok(w.control(VerbRelease, 1000, false, id))
	w.refused(w.start(id, "n"), ErrNotEligible) // the other one is still open
	w.finished(other, 1)
	w.ok(w.start(id, "n"))
	again := w.submit(1, 1)
	kept := w.depends(fmt.Sprint("afterok:", again), hold)
	w.ok(w.control(VerbHold, 0, true, kept))
	w.ok(w.control(VerbCancel, 1000, false, again))
	if j := w.job(kept); j.Hold != HeldByAdmin || !strings.Contains(j.Reason.Sentence(), "can never come") {
		t.Fatalf("%s %q", j.Hold, j.Reason.Sentence())
	}
	w.refused(w.control(VerbRelease, 1000, false, kept), ErrHeldByAdmin)
	past, err := w.submit2(alice, nil, hold, needs(fmt.Sprint("afterok:", target)))
	w.ok(err)
	if j := w.job(past); j.Hold != HeldNever {
		t.Fatalf("%s %+v", j.State, j)
	}
}

// TestCascade ends a long chain and a wide fan, many entries' worth, each job once and in the order of ids, and does the same after a restore.
func TestCascade(t *testing.T) {
	const n = 3*maxSettled/2 + 7
	for name, on := range map[string]func(i int) string{
		"chain": func(i int) string { return fmt.Sprint("afterok:", i) },
		"fan":   func(int) string { return "afterok:1" },
		"mixed": func(i int) string { return fmt.Sprintf("afterok:%d afterany:%d", 1+i/2, i) },
	} {
		t.Run(name, func(t *testing.T) {
			s := New(DefaultConfig())
			apply := func(s *State, c Command) any {
				got, err := s.Apply(s.Index()+1, Entry{Stamp: Stamp{At: 1000}, Command: c})
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
			cancel := ControlJobs{Verb: VerbCancel, Targets: targets(1), By: 1000}
			apply(s, cancel)
			if bad := s.Check(); bad != nil {
				t.Fatal(bad)
			}
			if !s.View().Unsettled() || s.v.finished.size() != maxSettled+1 {
				t.Fatalf("%d ended in one entry", s.v.finished.size())
			}
			twin, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, s.View())))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*State{s, twin, Fork(s.View())} {
				apply(s, TrimHistory{UpTo: 5}) // nothing is forgotten while somebody is still to hear of it
				apply(s, CommitPlan{Actions: []Action{{Settle: true}}})
				if s.View().Unsettled() || s.v.trimmed != 0 || s.v.finished.size() != n {
					t.Fatalf("%d of %d ended, trimmed %d", s.v.finished.size(), n, s.v.trimmed)
				}
				if bad := s.Check(); bad != nil {
					t.Fatal(bad)
				}
			}
			for i, j := range s.v.Finished(0) {
				if j.ID != JobID(i+1) {
					t.Fatalf("job %d ended as number %d", j.ID, i+1)
				}
			}
			if !bytes.Equal(snapshotOf(t, s.View()), snapshotOf(t, twin.View())) {
				t.Fatal("the restored state went another way")
			}
		})
	}
}
