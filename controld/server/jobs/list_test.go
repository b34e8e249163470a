package jobs

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// TestJobsThatAFilterSelects turns each word of a filter alone.
func TestJobsThatAFilterSelects(t *testing.T) {
	job := func(edit func(*model.Job)) *model.Job {
		j := &model.Job{ID: 5, Owner: model.Identity{User: "ann"}, Account: "physics", Queue: "q", Class: jobspec.BE,
			State: model.Running, Spec: &jobspec.Job{Name: "train"}}
		edit(j)
		return j
	}
	same := func(*model.Job) {}
	ended := func(j *model.Job) { j.State = model.Completed }
	for name, c := range map[string]struct {
		f    jobFilter
		edit func(*model.Job)
		want bool
	}{
		"nothing":           {jobFilter{}, same, true},
		"an ended one":      {jobFilter{}, ended, false},
		"all":               {jobFilter{all: true}, ended, true},
		"its user":          {jobFilter{user: "ann"}, same, true},
		"another user":      {jobFilter{user: "bob"}, same, false},
		"its account":       {jobFilter{account: "physics"}, same, true},
		"another account":   {jobFilter{account: "x"}, same, false},
		"its queue":         {jobFilter{queue: "q"}, same, true},
		"another queue":     {jobFilter{queue: "x"}, same, false},
		"its class":         {jobFilter{class: "be"}, same, true},
		"another class":     {jobFilter{class: "te"}, same, false},
		"its name":          {jobFilter{name: "train"}, same, true},
		"another name":      {jobFilter{name: "x"}, same, false},
		"its state":         {jobFilter{states: []model.JobState{model.Running}}, same, true},
		"another state":     {jobFilter{states: []model.JobState{model.Pending}}, same, false},
		"an ended state":    {jobFilter{states: []model.JobState{model.Completed}}, ended, true},
		"a state of others": {jobFilter{states: []model.JobState{model.Completed}, user: "bob"}, ended, false},
	} {
		if got := c.f.selects(job(c.edit)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	array := job(func(j *model.Job) {
		j.State = model.Running
		j.Children = &model.Children{Size: 4, Waiting: ranges.Span(3, 4), Live: 2}
		j.Spec = &jobspec.Job{Name: "sweep", Array: &jobspec.Array{Indices: "0-3"}}
	})
	task := job(func(j *model.Job) { j.ID, j.Parent, j.TaskNumber = 6, 5, 1 })
	pending, running := []model.JobState{model.Pending}, []model.JobState{model.Running}
	for name, c := range map[string]struct {
		f       jobFilter
		j       *model.Job
		members string
		whole   bool
	}{
		"a job":                           {jobFilter{user: "ann"}, job(same), "", true},
		"another":                         {jobFilter{user: "bob"}, job(same), "", false},
		"a task with its array":           {jobFilter{user: "ann"}, task, "", false},
		"a task by its state":             {jobFilter{states: running}, task, "", true},
		"an array":                        {jobFilter{user: "ann"}, array, "", true},
		"an array of another":             {jobFilter{user: "bob"}, array, "", false},
		"what of it waits":                {jobFilter{states: pending}, array, "3-4", false},
		"what of it waits, of another":    {jobFilter{states: pending, user: "bob"}, array, "", false},
		"what of it runs is in the tasks": {jobFilter{states: running}, array, "", false},
	} {
		members, whole := c.f.selection(c.j)
		if members.String() != c.members || whole != c.whole {
			t.Errorf("%s: %q, whole %t", name, members, whole)
		}
	}
	if got := splitAll([]string{"a,b", " c ", "", ",,d"}); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("words: %q", got)
	}
	for words, want := range map[string]int{"pd": 1, "Running": 1, "R,PD": 2, "x": -1, "": 0} {
		states, err := parseStates(splitAll([]string{words}))
		if n := len(states); (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("%q: %v, %v", words, states, err)
		}
	}
}

// TestListsOfJobs goes through filters, pages, forms and changes of a list.
func TestListsOfJobs(t *testing.T) {
	s := newSite(t)
	bobs := s.Do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
	list := func(query string, after uint64) (ids []int64, next string, delta bool, err error) {
		x := s.Request("/v1/jobs", "", query, "")
		x.After = after
		got, err := s.listJobs(x)
		if err != nil {
			return nil, "", false, err
		}
		var text []byte
		if got == nil {
			text = x.Writer.(*httptest.ResponseRecorder).Body.Bytes()
		} else if text, err = json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		var out struct {
			Items []struct{ ID int64 }
			Next  string
			Delta bool
		}
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s: %v: %s", query, err, text)
		}
		for _, i := range out.Items {
			ids = append(ids, i.ID)
		}
		return ids, out.Next, out.Delta, nil
	}
	is := func(ids ...model.JobID) (list []int64) {
		for _, id := range ids {
			list = append(list, int64(id))
		}
		return list
	}
	all := is(s.Gang, s.Pending, s.Leaving, s.Steps, s.Array, bobs)
	live := is(s.Gang, s.Pending, s.Leaving, s.Steps, s.Array)
	for _, c := range []struct {
		query string
		want  []int64
		next  string
	}{
		{"", all, ""}, {"user=ann", live, ""}, {"user=bob", is(bobs), ""}, {"name=b", is(bobs), ""},
		{"all=true", is(s.Gang, s.Pending, s.Ended, s.Leaving, s.Steps, s.Array, bobs), ""},
		{"user=ann&all=true", is(s.Gang, s.Pending, s.Ended, s.Leaving, s.Steps, s.Array), ""},
		{"limit=2", is(s.Gang, s.Pending), fmt.Sprint(s.Pending)}, {"limit=6", all, ""},
		{"limit=2&fields=id", is(s.Gang, s.Pending), fmt.Sprint(s.Pending)},
		{"limit=6&fields=id,name", all, ""}, {fmt.Sprintf("page=%d", s.Pending), is(s.Leaving, s.Steps, s.Array, bobs), ""},
		{fmt.Sprintf("user=ann&page=%d", s.Pending), is(s.Leaving, s.Steps, s.Array), ""},
		{fmt.Sprintf("id=%d", s.Ended), is(s.Ended), ""}, {fmt.Sprintf("id=%d,%d", s.Gang, bobs), is(s.Gang, bobs), ""},
		{fmt.Sprintf("id=%d&user=ann", bobs), nil, ""}, {"state=PD", is(s.Pending, s.Array, bobs), ""},
		{"state=CA", is(s.Ended), ""}, {"state=R", is(s.Gang, s.Steps), ""}, {"stream=true", all, ""},
		{"stream=true&fields=id", all, ""}, {"user=ann&stream=true&limit=1", live, ""},
	} {
		ids, next, delta, err := list(c.query, 0)
		if err != nil || !slices.Equal(ids, c.want) || next != c.next || delta {
			t.Errorf("%q: %v, next %q, delta %t, %v; want %v, next %q", c.query, ids, next, delta, err, c.want, c.next)
		}
	}
	for query, good := range map[string]bool{"delta=true": false, "delta=true&user=ann": true, "fields=id": true,
		"fields=x": false,
		"state=x":  false} {
		if _, _, _, err := list(query, 0); (err == nil) != good {
			t.Errorf("%q: %v", query, err)
		}
	}
	before := s.Replica.View().Index()
	s.All(s.Steps, model.WorkerExited)
	ids, _, delta, err := list("delta=true&user=ann", before)
	if err != nil || !delta || !slices.Equal(ids, is(s.Steps)) {
		t.Errorf("what has changed: %v, delta %t, %v", ids, delta, err)
	}
	if ids, _, delta, _ := list("delta=true&user=ann&stream=true", before); !delta || !slices.Equal(ids, is(s.Steps)) {
		t.Errorf("what has changed, as a stream: %v, delta %t", ids, delta)
	}
	if ids, _, delta, _ := list("delta=true&user=ann", 0); delta || len(ids) != 4 {
		t.Errorf("without an index: %v, delta %t", ids, delta)
	}
	for _, c := range []struct {
		after uint64
		query string
		want  bool
	}{{before, "", true}, {s.Replica.View().Index(), "", false}, {before, "user=ann", true}, {s.Replica.View().Index(),
		"user=ann", false},
		{before, "user=bob", false}} {
		x := s.Request("/v1/jobs", "", c.query, "")
		x.After = c.after
		if got := s.listReady(x)(s.Replica.View()); got != c.want {
			t.Errorf("news after %d for %q: %t", c.after, c.query, got)
		}
	}
	for ref, want := range map[string][2]bool{fmt.Sprint(s.Steps): {true, false}, fmt.Sprint(s.Pending): {false, false},
		fmt.Sprintf("%d_5", s.Array): {false, false}, "99999": {true, true}} { // after before, and after now
		x := s.Request("/v1/jobs/{id}", ref, "", "")
		x.After = before
		y := s.Request("/v1/jobs/{id}", ref, "", "")
		y.After = s.Replica.View().Index()
		if got := [2]bool{jobReady(x)(s.Replica.View()), jobReady(y)(s.Replica.View())}; got != want {
			t.Errorf("news of job %s: %v, want %v", ref, got, want)
		}
	}
	selected := func(query string, refs ...string) (out []string) {
		x := s.Request("/v1/jobs", "", query, "")
		f, err := s.jobFilter(x)
		if err == nil {
			err = selectNamed(x, &f, refs)
		}
		if err != nil {
			t.Fatal(err)
		}
		for j := range s.Replica.View().Jobs() {
			if members, whole := f.selection(j); whole || len(members) > 0 {
				out = append(out, fmt.Sprintf("%d:%s", j.ID, members.String()))
			}
		}
		return out
	}
	for _, c := range []struct {
		query string
		refs  []string
		want  []string
	}{
		{"", []string{fmt.Sprintf("%d_[6-7]", s.Array)}, []string{fmt.Sprintf("%d:2-3", s.Array)}},
		{"", []string{fmt.Sprint(s.Array)}, []string{fmt.Sprintf("%d:1-3", s.Array)}},
		{"", []string{fmt.Sprint(s.Gang)}, []string{fmt.Sprintf("%d:", s.Gang)}},
		{"state=PD", []string{fmt.Sprintf("%d_5", s.Array), fmt.Sprint(s.Pending)},
			[]string{fmt.Sprintf("%d:", s.Pending), fmt.Sprintf("%d:1", s.Array)}},
		{"state=R", []string{fmt.Sprintf("%d_5", s.Array)}, nil},
	} {
		if got := selected(c.query, c.refs...); !slices.Equal(got, c.want) {
			t.Errorf("%q of %v: %v, want %v", c.query, c.refs, got, c.want)
		}
	}
}

func TestAFieldThatIsNamedTwiceIsThereOnce(t *testing.T) {
	if fields, err := fieldsOf([]string{"id", "name", "id"}); err != nil || len(fields) != 2 {
		t.Errorf("%v, %v", fields, err)
	}
}

// TestReasonsOfAListAreFoundOnce for lists that follow each other closely.
func TestReasonsOfAListAreFoundOnce(t *testing.T) {
	s := newSite(t)
	var w waitReasons
	v := s.Replica.View()
	now := s.Replica.Now(v)
	first := w.reason(v, now, v.Job(s.Pending))
	if first.Code == model.ReasonNone || w.view != v || !w.next.After(time.Now().Add(-time.Minute)) {
		t.Errorf("it waits because of %+v", first)
	}
	w.next = time.Now().Add(time.Hour)
	fresh := s.Submit(func(j *jobspec.Job) { j.Hold = true })
	later := s.Replica.View()
	if got := w.reason(later, now, later.Job(s.Pending)); got != first || w.view != v {
		t.Errorf("a job that has not changed: %+v", got)
	}
	if got := w.reason(later, now, &model.Job{ID: fresh}); got.Code != model.ReasonNotScheduled {
		t.Errorf("a new job: %+v", got)
	}
	if got := w.reason(later, now, &model.Job{ID: fresh, Reason: model.Reason{Code: model.ReasonPriority}}); got.Code !=
		model.ReasonPriority {
		t.Errorf("a job with a reason: %+v", got)
	}
	w.next = time.Time{}
	if w.reason(later, now, later.Job(fresh)); w.view != later {
		t.Error("after its time the reasons are not found again")
	}
}

// TestTheSeriesOfAJob: the metric that is asked for, else the watched one, else the first.
func TestTheSeriesOfAJob(t *testing.T) {
	s := small(t)
	progress := func(metric, goal string) model.JobID {
		return s.Submit(func(j *jobspec.Job) {
			j.Hold = true
			j.Groups[0].Tasks[0].Progress = &jobspec.Progress{Metric: metric, Goal: goal, Total: 90}
		})
	}
	watchedOne, plain := progress("loss", "min"), s.SubmitAt("plain")
	live := func(model.JobID) bool { return false }
	for _, id := range []model.JobID{watchedOne, plain} {
		for step, loss := range map[int64]float64{1: 3.5, 2: 2.25} {
			s.Samples.Put(id, telemetry.AttemptProgress{Attempt: 1, Step: step, Metrics: map[string]float64{"loss": loss,
				"acc": 10 - loss}}, "loss", live)
		}
	}
	for _, c := range []struct {
		id                 model.JobID
		query              string
		metric, goal       string
		total, first, some int64
	}{
		{watchedOne, "", "loss", "min", 90, 0, 1}, {watchedOne, "metric=acc", "acc", "", 90, 0, 1},
		{plain, "", "acc", "", 0, 0, 1}, {plain, "metric=loss", "loss", "", 0, 0, 1},
		{plain, "metric=none", "none", "", 0, 0, 0},
	} {
		got, err := s.getSeries(s.Request("/v1/jobs/{id}/series", fmt.Sprint(c.id), c.query, ""))
		if err != nil || got.Job != c.id || got.Metric != c.metric || got.Goal != c.goal || got.Total != c.total ||
			(len(got.Points) > 0) != (c.some > 0) || !slices.Equal(got.Metrics, []string{"acc", "loss"}) {
			t.Errorf("job %d, %q: %+v, %v", c.id, c.query, got, err)
		}
		if c.some == 0 && got.Points == nil {
			t.Error("a metric without a series has no list of points")
		}
	}
}

// TestJobsOfOthersInAJob: the job that it gave way to, that it pauses for, and that it was tried with.
func TestJobsOfOthersInAJob(t *testing.T) {
	s := newSite(t)
	bobs := s.Bobs("a")
	s.Private(cluster.PrivateJobs)
	attempt := func(id model.JobID) api.Attempt {
		return api.Attempt{For: id, ForUser: "u", ForAccount: "a", Suspension: &api.Suspension{For: id},
			Trials: []api.Trial{{With: id}}}
	}
	out := api.Job{Attempts: []api.Attempt{attempt(s.Gang), attempt(bobs), {}}}
	hideOthers(s.Request("/v1/jobs/{id}", fmt.Sprint(s.Gang), "", ""), &out)
	own, others := out.Attempts[0], out.Attempts[1]
	if own.For != s.Gang || own.ForUser != "u" || own.ForAccount != "a" || own.Suspension.For != s.Gang ||
		own.Trials[0].With != s.Gang {
		t.Errorf("its own: %+v", own)
	}
	if others.For != 0 || others.ForUser != "" || others.ForAccount != "" || others.Suspension.For != 0 ||
		others.Trials[0].With != 0 {
		t.Errorf("another's: %+v", others)
	}
}

// TestStartsInLists notices estimates that nothing asked for, jobs that wait without one, and
// estimates of jobs that run.
func TestStartsInLists(t *testing.T) {
	s := newSite(t)
	for _, query := range []string{"", "start=true", "start=true&limit=2"} {
		got, err := s.listJobs(s.Request("/v1/jobs", "", query, ""))
		if err != nil {
			t.Fatal(err)
		}
		waiting := 0
		for _, j := range got.(*api.List[api.Job]).Items {
			waits := query != "" && j.Code == model.Pending
			if (j.Basis != "") != waits || j.StartEarliest != nil && !waits {
				t.Errorf("%q: job %d, %s: from %v to %v, %q", query, j.ID, j.Code, j.StartEarliest, j.StartLatest, j.Basis)
			}
			if waits {
				waiting++
			}
		}
		if query == "start=true" && waiting == 0 {
			t.Error("no job waits")
		}
	}
	if len(s.planning.taken) != 0 {
		t.Error("a forecast goes on")
	}
}
