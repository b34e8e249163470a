package fsm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func (w *world) update(c UpdateJobs) error {
	w.t.Helper()
	got, err := w.apply(c)
	if err != nil {
		return err
	}
	return got.([]model.ControlResult)[0].Err
}

func ptr[T any](v T) *T { return &v }

func TestUpdate(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	cfg := cluster.DefaultConfig()
	q := cfg.Queues["default"]
	q.MaxTime = 3600
	q.DefaultTime = 600
	cfg.Queues["default"] = q
	w.must(SetConfig{Config: cfg})
	run := w.running(1, []string{"n"})
	wait := w.submit(1, 1)
	before := w.s.View().NodeModified("n")
	more := UpdateJobs{IDs: []model.JobID{run}, By: 1000, AddTime: ptr(jobspec.Seconds(60))}
	w.refused(w.update(more), ErrRaisesLimit)
	w.refused(w.update(UpdateJobs{IDs: []model.JobID{run}, By: 1000, TimeLimit: ptr(jobspec.Seconds(601))}),
		ErrRaisesLimit)
	w.ok(w.update(UpdateJobs{IDs: []model.JobID{run}, By: 1000, AddTime: ptr(jobspec.Seconds(-60))}))
	if j := w.job(run); j.Limit != 540 || w.s.View().NodeModified("n") == before {
		t.Fatalf("limit %d after it was shortened, or its node is not told", j.Limit)
	}
	before = w.s.View().NodeModified("n")
	more.AddTime, more.Admin, more.By = ptr(jobspec.Seconds(120)), true, 0
	w.ok(w.update(more))
	if j := w.job(run); j.Limit != 660 || w.s.View().NodeModified("n") == before {
		t.Fatalf("limit %d, or its node is not told", j.Limit)
	}
	w.ok(w.update(UpdateJobs{IDs: []model.JobID{wait}, By: 1000, TimeLimit: ptr(jobspec.Seconds(900)), Priority: ptr(70),
		Name: ptr("better")}))
	if j := w.job(wait); j.Limit != 900 || j.Priority != 70 || j.Spec.Name != "better" || w.job(run).Spec.Name != "j" {
		t.Fatalf("%+v", j)
	}
	long := UpdateJobs{IDs: []model.JobID{wait}, By: 1000, TimeLimit: ptr(jobspec.Seconds(7200))}
	var over *model.LimitError
	if err := w.update(long); !errors.As(err, &over) || w.job(wait).Limit != 900 {
		t.Fatalf("beyond the queue's limit: %v", err)
	}
	long.Admin, long.By = true, 0
	w.ok(w.update(long))
	w.refused(w.update(UpdateJobs{IDs: []model.JobID{99}, By: 1000, Priority: ptr(1)}), model.ErrNoJob)
	w.finished(w.submit(1, 1), 0)
	w.refused(w.update(UpdateJobs{IDs: []model.JobID{3}, By: 1000, Priority: ptr(1)}), model.ErrWrongState)
	for _, c := range []UpdateJobs{
		{}, {Priority: ptr(101)}, {Priority: ptr(-1)}, {Name: ptr("")}, {TimeLimit: ptr(jobspec.Seconds(0))},
		{TimeLimit: ptr(jobspec.Seconds(5)), AddTime: ptr(jobspec.Seconds(5))}, {AddTime: ptr(jobspec.Seconds(-1e9))},
		{AddTime: ptr(jobspec.Seconds(-100_000))}, {Comment: ptr(strings.Repeat("x", jobspec.MaxComment+1))},
		{Comment: ptr("\x00")}, {Comment: ptr("\xff")},
	} {
		c.IDs, c.By = []model.JobID{wait}, 1000
		if spec := (*model.SpecError)(nil); !errors.As(w.update(c), &spec) {
			t.Errorf("%+v is not refused", c)
		}
	}
}

// TestComment: each task of an array has a comment of its own, those yet to be made that of the array.
func TestComment(t *testing.T) {
	w := newWorld(t)
	w.node("n", 1)
	w.node("m", 1)
	id := w.parent(1, 1, array("0-2"), func(j *jobspec.Job) { j.Comment = new("first") })
	w.ok(w.make(id, 1, "n"))
	made := id + 1
	say := func(id model.JobID, text string) {
		t.Helper()
		w.ok(w.update(UpdateJobs{IDs: []model.JobID{id}, By: 1000, Comment: &text}))
	}
	is := func(id model.JobID, want string) {
		t.Helper()
		if got := w.job(id).ShownComment(); got != want {
			t.Errorf("the comment of job %d is %q, want %q", id, got, want)
		}
	}
	is(made, "first")
	say(made, "mine")
	say(id, "later")
	is(id, "later")
	is(made, "mine")
	say(id, "")
	is(id, "")
	say(id, strings.Repeat("x", jobspec.MaxComment))
	w.ok(w.make(id, 2, "m"))
	is(id+2, strings.Repeat("x", jobspec.MaxComment))
	back, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	w.ok(err)
	if got := back.View().Job(made).ShownComment(); got != "mine" {
		t.Errorf("after a restart the comment is %q", got)
	}
}

// TestWhatAnUpdateMayAsk goes to the ends of what is allowed, and one step beyond.
func TestWhatAnUpdateMayAsk(t *testing.T) {
	const most = jobspec.MaxDuration
	for _, c := range []struct {
		name  string
		ask   UpdateJobs
		limit jobspec.Seconds // before
		want  jobspec.Seconds // afterwards; 0: refused
	}{
		{"a second", UpdateJobs{TimeLimit: ptr(jobspec.Seconds(1))}, 60, 1},
		{"ten years", UpdateJobs{TimeLimit: ptr(most)}, 60, most},
		{"a second more", UpdateJobs{TimeLimit: ptr(most + 1)}, 60, 0},
		{"no time", UpdateJobs{TimeLimit: ptr(jobspec.Seconds(0))}, 60, 0},
		{"less", UpdateJobs{AddTime: ptr(jobspec.Seconds(-59))}, 60, 1},
		{"nothing left", UpdateJobs{AddTime: ptr(jobspec.Seconds(-60))}, 60, 0},
		{"up to ten years", UpdateJobs{AddTime: ptr(most - 60)}, 60, most},
		{"beyond", UpdateJobs{AddTime: ptr(most - 59)}, 60, 0},
		{"the greatest step", UpdateJobs{AddTime: ptr(-most)}, most, 0},
		{"more to a job without a limit", UpdateJobs{AddTime: ptr(jobspec.Seconds(5))}, 0, 0},
	} {
		w := newWorld(t)
		cfg := cluster.DefaultConfig()
		q := cfg.Queues["default"]
		q.DefaultTime, q.MaxTime = 0, 0
		cfg.Queues["default"] = q
		w.must(SetConfig{Config: cfg})
		id := w.submit(1, 1, func(j *jobspec.Job) { j.TimeLimit = c.limit })
		c.ask.IDs, c.ask.By = []model.JobID{id}, 1000
		err := w.update(c.ask)
		if want := c.want; (err == nil) != (want > 0) || want > 0 && w.job(id).Limit != want ||
			want == 0 && w.job(id).Limit != c.limit {
			t.Errorf("%s: limit %d, %v", c.name, w.job(id).Limit, err)
		}
		if c.limit == 0 && !errors.Is(err, ErrNoLimit) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	w := newWorld(t)
	id := w.submit(1, 1)
	for _, priority := range []int{0, jobspec.MaxPriority} {
		w.ok(w.update(UpdateJobs{IDs: []model.JobID{id}, By: 1000, Priority: ptr(priority)}))
		if got := w.job(id).Priority; int(got) != priority {
			t.Errorf("priority %d, not %d", got, priority)
		}
	}
	var limit *model.LimitError
	many := UpdateJobs{IDs: make([]model.JobID, model.MaxJobsPerCall), By: 1000, Priority: ptr(5)}
	many.IDs[0] = id
	if got := w.must(many).([]model.ControlResult); got[0].Err != nil || !errors.Is(got[1].Err, model.ErrNoJob) {
		t.Errorf("as many jobs as may be: %v, %v", got[0].Err, got[1].Err)
	}
	many.IDs = append(many.IDs, id)
	if _, err := w.apply(many); !errors.As(err, &limit) {
		t.Errorf("one more: %v", err)
	}
}

// TestUpdatedNames: a singleton and a name look for what jobs are called now.
func TestUpdatedNames(t *testing.T) {
	w := newWorld(t)
	a, b := w.submit(1, 1, named2("a")), w.submit(1, 1, named2("b"))
	w.depends("afterok:a") // from now on names are indexed
	w.ok(w.update(UpdateJobs{IDs: []model.JobID{b}, By: 1000, Name: ptr("a")}))
	if id := w.depends("afterok:a"); w.job(id).Dependencies[0].Jobs[0] != b {
		t.Fatalf("a is %v", w.job(id).Dependencies)
	}
	_, err := w.submit2(alice, nil, needs("afterok:b"))
	w.refused(err, model.ErrNoJob)
	if id := w.depends("singleton", named2("a")); w.job(id).Dependencies[0].Jobs[0] != b ||
		w.job(a).State != model.Pending {
		t.Fatalf("the singleton waits for %v", w.job(id).Dependencies)
	}
}

// TestUpdateRecord renames all of a family or, once some of it has begun, nothing.
func TestUpdateRecord(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	id, err := w.submit2(alice, nil, func(j *jobspec.Job) {
		j.Array = &jobspec.Array{Indices: "0-3"}
	})
	w.ok(err)
	w.ok(w.update(UpdateJobs{IDs: []model.JobID{id}, By: 1000, Name: ptr("sweep"), Priority: ptr(60)}))
	w.ok(w.plan(&StartJob{Job: id, TaskNumber: 1, Places: []model.Place{w.place("n", 1)}}))
	if m := w.job(id + 1); m.Spec.Name != "sweep" || m.Priority != 60 {
		t.Fatalf("%s %d", m.Spec.Name, m.Priority)
	}
	w.refused(w.update(UpdateJobs{IDs: []model.JobID{id}, By: 1000, Name: ptr("other")}), model.ErrWrongState)
	w.refused(w.update(UpdateJobs{IDs: []model.JobID{id + 1}, By: 1000, Name: ptr("other")}), model.ErrWrongState)
	w.ok(w.update(UpdateJobs{IDs: []model.JobID{id}, By: 1000, Priority: ptr(90)}))
	if w.job(id).Priority != 90 || w.job(id+1).Priority != 60 {
		t.Fatal("what has been made keeps its priority")
	}
}
