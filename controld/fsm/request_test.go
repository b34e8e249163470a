package fsm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func TestControl(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	w.refused(w.control(model.VerbCancel, 1001, true, 99), model.ErrNoJob)
	w.ok(w.control(model.VerbHold, 1001, true, id))
	w.refused(w.control(model.VerbRelease, 1000, false, id), model.ErrHeldByAdmin)
	w.ok(w.control(model.VerbHold, 1000, false, id))
	if w.job(id).Hold != model.HeldByAdmin {
		t.Fatal("the owner's hold took the place of an operator's")
	}
	w.ok(w.control(model.VerbRelease, 0, true, id))
	w.refused(w.control(model.VerbRelease, 1000, false, id), model.ErrWrongState)
	w.refused(w.control(model.VerbRequeue, 1000, false, id), model.ErrWrongState)
	w.ok(w.control(model.VerbHold, 1000, false, id))
	w.ok(w.control(model.VerbCancel, 1000, false, id))
	w.state(id, model.Cancelled)
	if j := w.job(id); j.Reason.Text != "told so" || j.Seq != 1 {
		t.Fatalf("reason %+v seq %d", j.Reason, j.Seq)
	}
	for _, v := range []model.Verb{model.VerbCancel, model.VerbHold, model.VerbRelease, model.VerbRequeue} {
		w.refused(w.control(v, 1000, false, id), model.ErrWrongState)
	}
	_, err := w.apply(ControlJobs{Verb: "explode"})
	w.refused(err, model.ErrBadVerb)
}

func TestStrongerStopKeepsTheClock(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"}, func(j *jobspec.Job) {
		j.Preemption = &jobspec.Preemption{Signal: "SIGUSR2", GracePeriod: 20}
	})
	w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseDrain}))
	first := *w.job(id).Live().Stop
	if first.Signal != "SIGUSR2" || first.KillAt != w.at+20_000 {
		t.Fatalf("stop %+v", first)
	}
	w.wait(10)
	w.refused(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTE}), model.ErrStopping)
	w.refused(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout}), model.ErrStopping)
	w.ok(w.control(model.VerbCancel, 1000, false, id))
	w.ok(w.control(model.VerbCancel, 1000, false, id))
	got := *w.job(id).Live().Stop
	if got.Cause != model.CauseCancelled || got.At != first.At || got.KillAt != first.KillAt {
		t.Fatalf("stop %+v after %+v", got, first)
	}
	w.refused(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseCompleted}), model.ErrBadCause)
	w.refused(w.plan(&StopJob{Job: id, Attempt: 2, Cause: model.CauseTE}), model.ErrOldAttempt)
}

func TestSubmitDefaultsAndLimits(t *testing.T) {
	w := newWorld(t)
	id := w.submit(3, 2)
	j := w.job(id)
	if j.Queue != "default" || j.Account != "default" || j.Class != jobspec.BE || j.Priority != 50 || j.Limit != 86400 ||
		j.Workers != 3 {
		t.Fatalf("job %+v", j)
	}
	te := w.submit(1, 2, func(j *jobspec.Job) { j.Class = jobspec.TE })
	if w.job(te).Limit != 7200 {
		t.Fatalf("a te job may run %d s", w.job(te).Limit)
	}
	two := testSpec(1, 1)
	two.Groups = append(two.Groups, two.Groups[0])
	for name, c := range map[string]struct {
		spec *jobspec.Job
		want any
	}{
		"queue":      {edited(func(j *jobspec.Job) { j.Queue = "x" }), model.ErrNoQueue},
		"te time":    {edited(func(j *jobspec.Job) { j.Class, j.TimeLimit = jobspec.TE, 7201 }), new(model.LimitError)},
		"te gpus":    {edited(func(j *jobspec.Job) { j.Class, j.Groups[0].Count = jobspec.TE, 17 }), new(model.LimitError)},
		"two groups": {two, new(model.SpecError)},
		"class":      {edited(func(j *jobspec.Job) { j.Class = "x" }), new(model.SpecError)},
		"script": {edited(func(j *jobspec.Job) {
			j.Groups[0].Tasks[0].Script = string(make([]byte, jobspec.MaxTextBytes+1))
		}), new(model.SpecError)},
		"none": {nil, new(model.SpecError)},
	} {
		_, err := w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{testSpec(1, 1), c.spec}})
		var at *model.JobError
		if !errors.As(err, &at) || at.Index != 1 {
			t.Errorf("%s: got %v", name, err)
		}
		var limit *model.LimitError
		var spec *model.SpecError
		switch want := c.want.(type) {
		case *model.LimitError:
			if !errors.As(err, &limit) {
				t.Errorf("%s: got %v", name, err)
			}
		case *model.SpecError:
			if !errors.As(err, &spec) {
				t.Errorf("%s: got %v", name, err)
			}
		case error:
			w.refused(err, want)
		}
	}
	if w.s.v.LastJob() != te {
		t.Fatal("a refused submission left a job")
	}
}

func edited(edit func(*jobspec.Job)) *jobspec.Job {
	spec := testSpec(1, 1)
	edit(spec)
	return spec
}

func TestIdempotencyKeys(t *testing.T) {
	w := newWorld(t)
	submit := func(uid uint32, key, digest string) ([]model.JobID, error) {
		ids, err := w.apply(SubmitJobs{Owner: model.Identity{UID: uid}, Key: key, Digest: digest,
			Jobs: []*jobspec.Job{testSpec(1, 1), testSpec(1, 1)}})
		if err != nil {
			return nil, err
		}
		return ids.([]model.JobID), nil
	}
	first, _ := submit(1, "k", "d")
	again, _ := submit(1, "k", "d")
	other, _ := submit(2, "k", "d")
	if !slices.Equal(first, []model.JobID{1, 2}) || !slices.Equal(again, first) ||
		!slices.Equal(other, []model.JobID{3, 4}) {
		t.Fatalf("ids %v, again %v, of another user %v", first, again, other)
	}
	_, err := submit(1, "k", "e")
	w.refused(err, model.ErrKeyReused)
	w.wait(24*3600 - 1)
	if ids, _ := submit(1, "k", "d"); !slices.Equal(ids, first) {
		t.Fatalf("a key was forgotten early: %v", ids)
	}
	w.wait(1)
	if ids, err := submit(1, "k", "e"); err != nil || !slices.Equal(ids, []model.JobID{5, 6}) {
		t.Fatalf("after a day: %v %v", ids, err)
	}
}

func TestTrimHistory(t *testing.T) {
	w := newWorld(t)
	var ids []model.JobID
	for range 5 {
		ids = append(ids, w.submit(1, 1))
	}
	for _, id := range ids[:4] {
		w.ok(w.control(model.VerbCancel, 1000, false, id))
	}
	w.must(TrimHistory{UpTo: 3})
	v := w.s.View()
	if got := v.Finished(0); len(got) != 1 || got[0].Seq != 4 || v.Job(ids[0]) != nil || v.Trimmed() != 3 {
		t.Fatalf("left: %+v, trimmed %d", got, v.Trimmed())
	}
	w.must(TrimHistory{UpTo: 99})
	w.ok(w.control(model.VerbCancel, 1000, false, ids[4]))
	if got := w.s.View().Finished(4); len(got) != 1 || got[0].Seq != 5 {
		t.Fatalf("left: %+v", got)
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	w := newWorld(t)
	w.submit(1, 1)
	w.at -= 500
	id := w.submit(1, 1)
	if got := w.job(id).Submitted.At; got != 1000 || w.s.v.At() != 1000 {
		t.Fatalf("submitted at %d", got)
	}
	if _, err := w.s.Apply(w.index, Entry{Command: TrimHistory{}}); !errors.Is(err, model.ErrOldIndex) {
		t.Fatalf("got %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	w := newWorld(t)
	_, err := w.apply(SetConfig{})
	w.refused(err, model.ErrBadConfig)
	c := cluster.DefaultConfig()
	c.ClusterName = "mine"
	w.must(SetConfig{Config: c})
	if w.s.View().Config().ClusterName != "mine" {
		t.Fatal("not stored")
	}
}

func TestNearest(t *testing.T) {
	w := newWorld(t)
	shape := func(workers, gpus, perNode int) model.Shape {
		return model.Shape{Request: model.RequestOf(jobspec.Resources{Cores: 4, Memory: jobspec.GiB, GPUs: gpus}),
			Workers: workers, PerNode: perNode}
	}
	if ok, _ := w.s.View().NearestFit(shape(1, 64, 1)); !ok {
		t.Fatal("refused before any node has registered")
	}
	w.node("n1", 4)
	w.node("n2", 8)
	w.must(SetNodeState{Node: "n2", State: model.NodeDown})
	for _, c := range []struct {
		s   model.Shape
		ok  bool
		fit int
	}{
		{shape(1, 8, 1), true, 0}, {shape(2, 4, 1), true, 0}, {shape(3, 4, 1), false, 2}, {shape(3, 4, 2), true, 0},
		{shape(1, 9, 1), false, 0}, {shape(2, 8, 1), false, 1},
	} {
		ok, why := w.s.View().NearestFit(c.s)
		if ok != c.ok || !ok && (why.Fit != c.fit || why.Node != "n2" || why.Have.GPUs != 8000) {
			t.Errorf("%+v: %v %+v", c.s, ok, why)
		}
	}
}

func TestBypassIsCounted(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	head, a, b := w.submit(1, 9), w.submit(1, 1), w.submit(1, 1)
	start := func(id model.JobID, gpu int) Action {
		return &StartJob{Job: id, Places: []model.Place{{Node: "n1", GPUs: []int{gpu}}}, Bypasses: head}
	}
	w.must(CommitPlan{Actions: []Action{start(a, 0), start(b, 1), start(b, 2)}})
	if got := w.job(head).Bypassed; got != 2 {
		t.Fatalf("passed %d times, want 2: a refused start does not count", got)
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	from := w.s.Index()
	id := w.running(1, []string{"n1"})
	w.report(id, 0, model.WorkerExited)
	var got []string
	for _, e := range w.s.View().Events(from) {
		got = append(got, strings.TrimSpace(string(e.Type)+" "+e.Node))
	}
	want := []string{"submitted", "assigned n1", "started n1", "ended n1", "finished"}
	if !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	for range model.MaxEvents {
		w.s.s.Emit(model.Event{Type: model.EventConfig})
	}
	if n := len(w.s.v.Events(0)); n != model.MaxEvents {
		t.Fatalf("%d events kept", n)
	}
}
