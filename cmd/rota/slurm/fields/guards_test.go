package fields

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestNodesThatAreAlike has two nodes differ in one thing: sinfo's JSON has them in a row if it does not show that of
// each.
func TestNodesThatAreAlike(t *testing.T) {
	gpu := []api.NodeGPU{{Model: "H100", Job: 0}}
	for name, c := range map[string]struct {
		edit func(*api.Node)
		rows int
	}{
		"name":      {func(*api.Node) {}, 1},
		"cores":     {func(n *api.Node) { n.Cores++ }, 2},
		"memory":    {func(n *api.Node) { n.Memory += jobspec.MiB }, 2},
		"bytes":     {func(n *api.Node) { n.Memory++ }, 1}, // less than what is shown
		"state":     {func(n *api.Node) { n.State = "mix" }, 2},
		"GPUs":      {func(n *api.Node) { n.GPUs = gpu }, 2},
		"GPUs used": {func(n *api.Node) { n.GPUs = []api.NodeGPU{{Model: "A100", Job: 7}} }, 2},
		"labels":    {func(n *api.Node) { n.Labels = map[string]string{"b": ""} }, 2},
		"reason":    {func(n *api.Node) { n.Reason = "disk" }, 2},
		"version":   {func(n *api.Node) { n.Version = "2" }, 2},
		"use":       {func(n *api.Node) { n.CoresUsed, n.MemoryUsed = 3, jobspec.GiB }, 1},
	} {
		one := api.Node{Name: "n1", State: "idle", Cores: 8, Memory: 4 * jobspec.GiB, Version: "1",
			GPUs: []api.NodeGPU{{Model: "A100"}}, Labels: map[string]string{"a": ""}}
		two := one
		two.Name = "n2"
		c.edit(&two)
		p := &Partition{Name: "default", Nodes: []*api.Node{&one, &two}}
		rows := Join(&Source{}, []*Partition{p}, nil, Joining{JSON: true, Wanted: func(*api.Node) bool { return true }})
		if len(rows) != c.rows {
			t.Errorf("%s: %d rows", name, len(rows))
		}
	}
}

// TestTasksOfAJob counts the processes that a job starts in each kind of launch.
func TestTasksOfAJob(t *testing.T) {
	task := func(l *jobspec.Launch) jobspec.Task { return jobspec.Task{Launch: l} }
	group := func(tasks ...jobspec.Task) []jobspec.Group { return []jobspec.Group{{Tasks: tasks}} }
	for _, c := range []struct {
		workers, gpus int
		groups        []jobspec.Group
		want          int
	}{
		{0, 0, nil, 1}, {1, 0, nil, 1}, {5, 8, nil, 5}, {5, 8, group(task(nil)), 5}, {5, 8, group(), 5},
		{5, 8, group(task(nil), task(&jobspec.Launch{Nproc: 3})), 5},
		{5, 8, append(group(task(&jobspec.Launch{Nproc: 3})), group(task(nil))...), 5},
		{5, 8, group(task(&jobspec.Launch{})), 5}, {5, 8, group(task(&jobspec.Launch{Nproc: 1})), 5},
		{5, 8, group(task(&jobspec.Launch{Nproc: 2})), 10}, {0, 8, group(task(&jobspec.Launch{Nproc: 3})), 3},
		{5, 8, group(task(&jobspec.Launch{Type: "per_gpu"})), 8}, {5, 4, group(task(&jobspec.Launch{Type: "per_gpu"})), 5},
		{5, 8, group(task(&jobspec.Launch{NprocGPU: true, Nproc: 9})), 8}, {2, 0,
			group(task(&jobspec.Launch{NprocGPU: true})), 2},
	} {
		r := &JobRow{Source: &Source{}, Job: &api.Job{Workers: c.workers, GPUs: c.gpus, Spec: &jobspec.Job{Groups: c.groups}}}
		if got := r.taskCount(); got != c.want {
			t.Errorf("%d workers, %d GPUs, %+v: %d tasks, not %d", c.workers, c.gpus, c.groups, got, c.want)
		}
	}
}

// TestTimesOfAJob: how long it has waited, when it will have to end, and how long it has left, at each border.
func TestTimesOfAJob(t *testing.T) {
	at := func(n int) *api.Time {
		if n < 0 {
			return nil
		}
		return slurmtest.Minute(n)
	}
	const none = -1
	for _, c := range []struct {
		submitted, eligible, started, ended int
		limit, elapsed                      jobspec.Seconds
		waited                              string
		end                                 int
		left                                string
	}{
		{none, none, none, none, 0, 0, "00:00:00", none, "UNLIMITED"},
		{1, none, none, none, 60, 0, "00:46:05", none, "1:00"}, {1, 3, none, none, 60, 59, "00:44:05", none, "0:01"},
		{1, 3, 4, none, 60, 60, "00:01:00", 5, "0:00"}, {1, 3, 4, none, 60, 61, "00:01:00", 5, "0:00"},
		{1, 3, 4, 9, 60, 60, "00:01:00", 9, "0:00"}, {1, 3, none, 9, 60, 0, "00:06:00", 9, "1:00"},
		{1, 5, 4, none, 0, 0, "00:00:00", none, "UNLIMITED"}, {1, 59, none, none, 1, 0, "00:00:00", none, "0:01"},
		{1, 4, 4, none, 3600, 0, "00:00:00", 64, "1:00:00"},
	} {
		r := &JobRow{Source: oddSource(false), Job: &api.Job{Submitted: at(c.submitted), Eligible: at(c.eligible),
			Started: at(c.started), Ended: at(c.ended), TimeLimit: c.limit, Elapsed: c.elapsed}}
		if got := r.waited(); got != c.waited {
			t.Errorf("%+v: it waited %s", c, got)
		}
		want := at(c.end)
		if c.end == 64 {
			want = &api.Time{Time: at(4).Add(time.Hour)}
		}
		if got := r.end(); (got == nil) != (want == nil) || got != nil && !got.Equal(want.Time) {
			t.Errorf("%+v: it ends at %v", c, got)
		}
		left := Jobs[slices.IndexFunc(Jobs, func(f Field[*JobRow]) bool { return f.long == "TimeLeft" })].text(r)
		if left != c.left {
			t.Errorf("%+v: %s are left", c, left)
		}
	}
}

// TestWhereTheOutputIs: the output is in a file of the first task. The field is empty if Rota keeps
// the output, if the caller may not see the specification, and for all tasks of an array.
func TestWhereTheOutputIs(t *testing.T) {
	three := 3
	for name, c := range map[string]struct {
		edit     func(*api.Job)
		out, err string
	}{
		"a file":         {func(*api.Job) {}, "/w/7.out", "/w/7.err"},
		"one for both":   {func(j *api.Job) { j.Spec.Groups[0].Tasks[0].Log.Stderr = "" }, "/w/7.out", "/w/7.out"},
		"errors alone":   {func(j *api.Job) { j.Spec.Groups[0].Tasks[0].Log.Stdout = "" }, "", ""},
		"kept by Rota":   {func(j *api.Job) { j.Spec.Groups[0].Tasks[0].Log = nil }, "", ""},
		"no group":       {func(j *api.Job) { j.Spec.Groups = nil }, "", ""},
		"no task":        {func(j *api.Job) { j.Spec.Groups[0].Tasks = nil }, "", ""},
		"not to be seen": {func(j *api.Job) { j.Spec = nil }, "", ""},
		"an array":       {func(j *api.Job) { j.Array.Indices = "1-3" }, "", ""},
		"a task of one":  {func(j *api.Job) { j.Array = api.ArrayPlace{Job: 5, Index: &three} }, "/w/7.out", "/w/7.err"},
		"by its attempts": {func(j *api.Job) { j.Attempt, j.Spec.Groups[0].Tasks[0].Log.Stdout = 3, "/w/%r" }, "/w/2",
			"/w/7.err"},
		"no such pattern": {func(j *api.Job) { j.Spec.Groups[0].Tasks[0].Log.Stdout = "/w/%Q" }, "", "/w/7.err"},
	} {
		job := &api.Job{ID: 7, Attempt: 1, GPUs: 4, Workers: 2, Nodes: []string{"n1"},
			Spec: &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
				Log: &jobspec.Log{Stdout: "/w/%j.out", Stderr: "/w/%j.err"}}}}}}}
		c.edit(job)
		r := &JobRow{Source: &Source{}, Job: job}
		if out, errs := r.output(false), r.output(true); out != c.out || errs != c.err {
			t.Errorf("%s: %q and %q", name, out, errs)
		}
	}
}

// TestStepsAtTheirBorders: what steps have where something is not known, and of which there are rows.
func TestStepsAtTheirBorders(t *testing.T) {
	at := slurmtest.Minute
	for name, c := range map[string]struct {
		step  api.Step
		state model.JobState
		took  jobspec.Seconds
	}{
		"well":               {api.Step{Start: at(1), End: at(3)}, model.Completed, 120},
		"no begin":           {api.Step{End: at(3), ExitCode: 1}, model.Failed, 0},
		"no end":             {api.Step{Start: at(1), Signal: 1}, model.Cancelled, 0},
		"at its limit":       {api.Step{Signal: 15, Why: api.StepTimedOut}, model.TimedOut, 0},
		"memory at a limit":  {api.Step{Signal: 9, OOM: true, Why: api.StepTimedOut}, model.OutOfMemory, 0},
		"a signal by a code": {api.Step{Signal: 9, ExitCode: 1}, model.Cancelled, 0},
	} {
		r := (&JobRow{Source: &Source{}, Job: &api.Job{Elapsed: 77}}).ended(&c.step)
		if r.Code != c.state || r.Elapsed != c.took || r.State != slurmStates[c.state] {
			t.Errorf("%s: %s, %d s", name, r.Code, r.Elapsed)
		}
	}
	running := api.StepStatus{StepBegun: api.StepBegun{Step: 3, Nodes: []string{"a", "b"}, Tasks: []int{1}},
		Started: model.UnixMS(at(50).UnixMilli())}
	r := &JobRow{Source: oddSource(false), Running: []api.StepStatus{running}, Job: &api.Job{Nodes: []string{"a", "b"},
		Workers: 2,
		Started: at(1), Code: model.Suspended, State: "SUSPENDED", Attempts: []api.Attempt{{Steps: []api.Step{{ID: 3}}}, {}}}}
	var got []string
	for _, s := range r.LiveSteps() {
		got = append(got, fmt.Sprint(s.StepID(), s.Nodes, s.State, int(s.Elapsed)))
	}
	// it has not begun yet by this machine's clock; steps of an attempt before have ended with that
	if text := strings.Join(got, " "); text != "batch[a]SUSPENDED0 extern[a b]SUSPENDED0 3[a]SUSPENDED0" {
		t.Errorf("steps %s", text)
	}
	for _, edit := range []func(*JobRow){func(r *JobRow) { r.Started = nil }, func(r *JobRow) { r.Ended = at(9) }} {
		job := *r.Job
		other := &JobRow{Source: r.Source, Job: &job, Running: r.Running}
		if edit(other); other.LiveSteps() != nil {
			t.Errorf("a job that does not run has steps that do: %d", len(other.LiveSteps()))
		}
	}
	if r.StepID() != "" {
		t.Error("a job is a step")
	}
	columns, err := ParseLetters(Jobs, "%i - %j")
	if err != nil {
		t.Fatal(err)
	}
	if TitleSteps(columns); columns[0].title != "STEPID" || columns[1].title != "NAME" {
		t.Errorf("titles %q and %q", columns[0].title, columns[1].title)
	}
	for _, c := range []struct {
		first api.Component
		cores int
		mem   jobspec.Bytes
	}{
		{api.Component{Cores: 9, Memory: 90}, 10, 40}, {api.Component{Workers: 1, Cores: 9, Memory: 90, GPUs: 3}, 9, 90},
		{api.Component{Workers: 3, Cores: 9, Memory: 90, GPUs: 3}, 3, 30},
	} {
		job := &api.Job{Nodes: []string{"a", "b"}, Workers: 2, Cores: 20, Memory: 80, Started: at(1),
			Components: []api.Component{c.first}, Attempts: []api.Attempt{{Steps: []api.Step{{ID: 1}}}}}
		b := (&JobRow{Source: &Source{}, Job: job}).Steps()[0]
		if b.Cores != c.cores || b.Memory != c.mem || len(b.Nodes) != 1 || b.step.used.Workers != 0 {
			t.Errorf("%+v: the script has %d cores and %d bytes on %v", c.first, b.Cores, b.Memory, b.Nodes)
		}
	}
}

// TestProcessorTimeThatDoesNotAddUp: steps are counted in any case, and what is left for the script is never below 0.
func TestProcessorTimeThatDoesNotAddUp(t *testing.T) {
	for _, c := range []struct{ total, system, steps, stepsSystem, wantTotal, wantSystem float64 }{
		{0, 0, 3, 1, 3, 1}, {5, 2, 3, 1, 5, 2}, {5, 4, 3, 0.5, 5, 2.5}, {5, 2, 5, 3, 5, 3}, {2, 1, 3, 0, 3, 0}, {3, 3, 3, 1,
			3, 1},
	} {
		a := &api.Attempt{Usage: &api.Usage{CPUSeconds: c.total, SystemSeconds: c.system, Workers: 1}, Steps: []api.Step{
			{Usage: &api.Usage{CPUSeconds: c.steps, SystemSeconds: c.stepsSystem, Workers: 1}}}}
		if total, system := attemptSeconds(a); total != c.wantTotal || system != c.wantSystem {
			t.Errorf("%+v: %g and %g", c, total, system)
		}
	}
}

// TestAmountsAtTheirBorders: what a node has in use is said if there is any, each kind by itself.
func TestAmountsAtTheirBorders(t *testing.T) {
	for _, c := range []struct {
		node api.Node
		want string
	}{
		{api.Node{}, ""}, {api.Node{CoresUsed: 1}, "cpu=1,mem=0M,billing=1"},
		{api.Node{MemoryUsed: jobspec.MiB}, "cpu=0,mem=1M,billing=0"}, {api.Node{GPUsUsed: 1},
			"cpu=0,mem=0M,billing=0,gres/gpu=1"},
	} {
		if got := allocated(&c.node); got != c.want {
			t.Errorf("%+v: %q", c.node, got)
		}
	}
	for _, c := range []struct {
		priority int
		features []string
		nice     int
		want     string
	}{
		{jobspec.DefaultPriority, nil, 0, ""}, {jobspec.DefaultPriority - 1, []string{"a|b"}, 1, "a|b"},
		{jobspec.DefaultPriority + 1, []string{"a|b", "c", "d|e"}, 0, "(a|b)&c&(d|e)"}, {0, []string{"a", "c"}, 50, "a&c"},
	} {
		r := &JobRow{Source: &Source{}, Job: &api.Job{Priority: c.priority, Spec: &jobspec.Job{Features: c.features}}}
		if r.nice() != c.nice || r.constraint() != c.want {
			t.Errorf("%+v: nice %d, constraint %q", c, r.nice(), r.constraint())
		}
	}
	for _, c := range []struct {
		attempt, gpus, workers, nodes, cores int
		restarts                             int
		perNode                              string
		perWorker                            int
	}{
		{0, 0, 0, 0, 7, 0, "", 7}, {1, 8, 3, 0, 7, 0, "gres/gpu:2", 2}, {2, 8, 3, 2, 7, 1, "gres/gpu:4", 2},
		{3, 1, 1, 1, 1, 2, "gres/gpu:1", 1},
	} {
		r := &JobRow{Source: &Source{}, Job: &api.Job{Attempt: c.attempt, GPUs: c.gpus, Workers: c.workers, Cores: c.cores,
			Nodes: []string{"n1", "n2"}[:c.nodes]}}
		if r.restarts() != c.restarts || r.gpusPerNode() != c.perNode || r.perWorker() != c.perWorker || r.allocated() != 0 {
			t.Errorf("%+v: %d restarts, %q, %d cores of each worker", c, r.restarts(), r.gpusPerNode(), r.perWorker())
		}
	}
	src := &Source{}
	if got, none := src.PeakOrNone(1), src.PeakOrNone(0); got != "0M" || none != "" {
		t.Errorf("a byte is a peak of %q", got)
	}
}

// TestRowsInJSON writes rows as the commands do, each kind of tree, with what clients split at.
func TestRowsInJSON(t *testing.T) {
	var out bytes.Buffer
	d := NewDocument(bufio.NewWriter(&out), "rows")
	tree := treeOf([]Field[pair]{{json: "b.name", text: func(p pair) string { return p.name }},
		{json: "a", text: func(pair) string { return "" }, value: func(p pair) any { return p.count }},
		{json: "b.count", text: func(p pair) string { return fmt.Sprint(p.count) }}, {long: "none"}},
		func(f *Field[pair]) string { return f.json })
	for _, row := range []pair{{"x", 1}, {"a longer one", 22}, {"y", 3}} {
		if err := AddRow(d, tree, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := AddRow(d, []Member[pair]{{name: "m", field: &Field[pair]{value: func(pair) any { return func() {} }}}},
		pair{}); err == nil {
		t.Error("what has no JSON was written")
	}
	_ = d.out.Flush()
	want := `{
  "rows": [
    {"a":1,"b":{"count":"1","name":"x"}},
    {"a":22,"b":{"count":"22","name":"a longer one"}},
    {"a":3,"b":{"count":"3","name":"y"}}`
	if got := out.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for past, tree := range map[bool][]Member[*JobRow]{false: LiveTree(), true: PastTree()} {
		text, err := appendObject(nil, tree, &JobRow{Source: oddSource(past), Job: &api.Job{ID: 7, Name: "x"}})
		var object map[string]any
		if err != nil || json.Unmarshal(text, &object) != nil || object["job_id"] != 7.0 || object["name"] != "x" ||
			(object["association"] != nil) != past || (object["partition"] == nil || object["job_state"] != nil) == past {
			t.Errorf("past %t: %s, %v", past, text, err)
		}
	}
	text, err := appendObject(nil, NodeTree(), &NodeRow{Source: &Source{}, part: &Partition{Name: "p"}})
	var object map[string]any
	if err != nil || json.Unmarshal(text, &object) != nil || object["partition"].(map[string]any)["name"] != "p" {
		t.Errorf("%s, %v", text, err)
	}
	if rows := new(Source).Unfold(&api.Job{Group: nil, Components: nil, Flags: nil, ID: 3}, true); len(rows) != 1 {
		t.Errorf("a job has %d rows", len(rows))
	}
}

// TestWidthsAndNames: the widest column on either side, one beyond, and the names of fields in lines of four.
func TestWidthsAndNames(t *testing.T) {
	for form, width := range map[string]int{"8192": 8192, "-8192": 8192, "8193": 0, "-8193": 0, "1": 1, "x": 0, "": 0} {
		var s Sheet[pair]
		err := s.Choose(pairs, "count%"+form)
		if (err == nil) != (width > 0) || err == nil && (s.Columns[0].width != width ||
			s.Columns[0].right == strings.HasPrefix(form, "-")) {
			t.Errorf("%q: %v, %+v", form, err, s.Columns)
		}
	}
	for n, want := range map[int]string{0: "", 1: "a\n", 4: "a b c d\n", 5: "a b c d\ne\n", 8: "a b c d\ne f g h\n"} {
		var out bytes.Buffer
		PrintNames(&out, strings.Split("hgfedcba", "")[8-n:])
		if got := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "\n", " / ")), " "); got !=
			strings.TrimSpace(strings.ReplaceAll(want, "\n", " / ")) {
			t.Errorf("%d names: %q", n, out.String())
		}
	}
	for name, want := range map[string]string{"": "", "COUNT": "Count", "countt": "CountTwo", "c": "Count",
		"the":       "TheName",
		"counttwoo": ""} {
		if f := titled(pairs, name); (f == nil) != (want == "") || f != nil && f.inFormats() != want {
			t.Errorf("%q is %v", name, f)
		}
	}
	for _, c := range []struct {
		row  *JobRow
		want string
	}{
		{&JobRow{Source: &Source{}, Job: &api.Job{Cores: 2}}, ""},
		{&JobRow{Source: &Source{}, Job: &api.Job{Workers: 1, Cores: 2, Started: slurmtest.Minute(1)}},
			"cpu=2,mem=0M,node=1,billing=2"},
		{&JobRow{Source: &Source{}, Job: &api.Job{Workers: 1, Cores: 2, Started: slurmtest.Minute(1)},
			step: &step{id: tool.ExternStep}},
			"cpu=2,mem=0M,node=1,billing=2"},
		{&JobRow{Source: &Source{}, Job: &api.Job{Workers: 1, Cores: 2, Started: slurmtest.Minute(1)}, step: &step{id: "0"}},
			"cpu=2,node=1"},
		{&JobRow{Source: &Source{}, Job: &api.Job{Workers: 1, Cores: 2, GPUs: 1, Memory: jobspec.MiB,
			Started: slurmtest.Minute(1)},
			step: &step{id: "0"}}, "cpu=2,gres/gpu=1,mem=1M,node=1"},
	} {
		if got := c.row.allocatedTRES(false); got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}
