package fields

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestSpecOfAJob: what a job asks for is written as its submission has it.
func TestSpecOfAJob(t *testing.T) {
	r := &JobRow{Source: &Source{}, Job: &api.Job{Priority: 40, Spec: &jobspec.Job{Features: []string{"a", "b|c"},
		Licenses: map[string]int{"matlab": 2}, Meta: map[string]string{"wckey": "k"}}}}
	got := ""
	for _, name := range []string{"Feature", "WCKey", "Licenses", "Nice"} {
		i := slices.IndexFunc(Jobs, func(f Field[*JobRow]) bool { return f.long == name })
		got += Jobs[i].text(r) + " "
	}
	if want := "a&(b|c) k matlab:2 10 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReasonInPlaceOfNodes: a job that has failed is shown with its reason, and others with their nodes.
func TestReasonInPlaceOfNodes(t *testing.T) {
	for code, want := range map[model.JobState]string{model.Running: "n1", model.Completed: "n1", model.Cancelled: "n1",
		model.Failed: "(NonZeroExitCode)", model.TimedOut: "(NonZeroExitCode)"} {
		job := &api.Job{Code: code, Nodes: []string{"n1"}, Reason: api.Reason{Code: "NonZeroExitCode"}}
		columns, err := ParseLetters(Jobs, "%R")
		if err != nil {
			t.Fatal(err)
		}
		if got := columns[0].Field.text(&JobRow{Source: &Source{}, Job: job}); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

// TestStoppedJobs: sacct has no exit code for a job that was cancelled or reached its time limit.
// The script's own step shows how it ended. The processor time of its steps adds up to its own.
func TestStoppedJobs(t *testing.T) {
	var s Sheet[*JobRow]
	if err := s.Choose(Jobs, "jobid,state,exitcode,totalcpu,systemcpu,maxrss,averss"); err != nil {
		t.Fatal(err)
	}
	s.NoHeader, s.Delimiter, s.apart = true, "|", true
	for name, c := range map[string]struct {
		code model.JobState
		edit func(*api.Job)
		want string
	}{
		"cancelled": {model.Cancelled, func(j *api.Job) { j.Signal, j.CancelledBy = 15, new(uint32(4711)) },
			"7|CANCELLED by 4711|0:0|00:10.000|00:01.000||\n7.batch|CANCELLED|0:15|00:06.500|00:00.750||\n"},
		"by none": {model.Cancelled, func(j *api.Job) { j.ExitCode = 3 },
			"7|CANCELLED|0:0|00:10.000|00:01.000||\n7.batch|FAILED|3:0|00:06.500|00:00.750||\n"},
		"politely": {model.Cancelled, func(j *api.Job) { j.CancelledBy = new(uint32(0)) },
			"7|CANCELLED by 0|0:0|00:10.000|00:01.000||\n7.batch|COMPLETED|0:0|00:06.500|00:00.750||\n"},
		"at its limit": {model.TimedOut, func(j *api.Job) { j.Signal = 15 },
			"7|TIMEOUT|0:0|00:10.000|00:01.000||\n7.batch|CANCELLED|0:15|00:06.500|00:00.750||\n"},
		"ended before": {model.Failed, func(j *api.Job) { j.ExitCode, j.CancelledBy = 3, new(uint32(4711)) },
			"7|FAILED|3:0|00:10.000|00:01.000||\n7.batch|FAILED|3:0|00:06.500|00:00.750||\n"},
	} {
		job := slurmtest.JobOf(7, "train", c.code, slurmStates[c.code], c.edit)
		job.Started, job.Ended, job.Nodes = slurmtest.Minute(1), slurmtest.Minute(2), []string{"n1", "n2"}
		job.Attempts = []api.Attempt{{N: 1, Usage: &api.Usage{CPUSeconds: 2, Workers: 2,
			Extern: &api.ExternUsage{CPUSeconds: 0.5, PeakMemory: 4096}}},
			{N: 2, Steps: []api.Step{{ID: 0, Usage: &api.Usage{CPUSeconds: 2, SystemSeconds: 0.125, Workers: 1}, Signal: 15}},
				Usage: &api.Usage{CPUSeconds: 8, SystemSeconds: 1, Workers: 2,
					Extern: &api.ExternUsage{CPUSeconds: 1, SystemSeconds: 0.125, PeakMemory: 8192}}}}
		row := &JobRow{Job: &job, Source: &Source{Past: true}}
		var text bytes.Buffer
		err := s.Print(&text, slices.Values(append([]*JobRow{row}, row.Steps()...)))
		want := c.want + "7.extern|COMPLETED|0:0|00:01.500|00:00.125|8K|\n7.0|CANCELLED|0:15|00:02.000|00:00.125||\n"
		if err != nil || text.String() != want {
			t.Errorf("%s: %v\n%swant\n%s", name, err, &text, want)
		}
	}
}

// TestExactRows: nodes that differ in an amount are apart, and those that differ in their names or in
// what jobs have of them are not.
func TestExactRows(t *testing.T) {
	node := func(name string, cores, used int64) *api.Node {
		return &api.Node{Name: name, State: "idle", Cores: cores, CoresUsed: used}
	}
	p := &Partition{Name: "default", Nodes: []*api.Node{node("n1", 4, 0), node("n2", 4, 1), node("n3", 8, 0)}}
	columns, err := ParseLetters(Nodes, "%P %D %N %C %c")
	if err != nil {
		t.Fatal(err)
	}
	rows := Join(&Source{}, []*Partition{p}, columns, Joining{Exact: true, Wanted: func(*api.Node) bool { return true }})
	if len(rows) != 2 || len(rows[0].nodes) != 2 {
		t.Errorf("%d rows, of which the first has %v", len(rows), rows[0].names())
	}
}

// TestAllFieldsOfSacct: ALL names all, and a title that is too long is cut without a mark.
func TestAllFieldsOfSacct(t *testing.T) {
	var s Sheet[*JobRow]
	if err := s.Choose(Jobs, "all"); err != nil || len(s.Columns) != len(Titles(Jobs)) {
		t.Errorf("%d fields of %d, %v", len(s.Columns), len(Titles(Jobs)), err)
	}
	s.Columns = nil
	if err := s.Choose(Jobs, "jobname%3"); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	err := s.Print(&text, slices.Values([]*JobRow{{Source: &Source{}, Job: &api.Job{Name: "train"}}}))
	if err != nil || text.String() != "Job \n--- \ntr+ \n" {
		t.Errorf("%q, %v", text.String(), err)
	}
}

// TestValuesOfJSON: what is written without reflection is what encoding/json writes.
func TestValuesOfJSON(t *testing.T) {
	for _, v := range []any{"", "plain",
		`a"b\c`, "<&>", "é\n\x00\xff", true, 7, int64(-1), uint32(9), model.JobID(3), numberOf(5),
		number{Infinite: true}, []string{"a"}, map[string]any{"b": nil}} {
		got, err := appendValue(nil, v)
		want, _ := json.Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%#v is %s, %v; want %s", v, got, err, want)
		}
	}
}

// FuzzFormats reads any text as a format. A format that can be read can be written.
func FuzzFormats(f *testing.F) {
	for _, seed := range []string{"%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R", "%", "%.", "%#", "%#.5", "%é", "a%20ib",
		"%99999999999i",
		"Name:.5x,State", ":", ",",
		"Name:", "State%20", "JobID%-", "%P%%"} {
		f.Add(seed)
	}
	job := slurmtest.LiveJobs()[0]
	src := &Source{Never: "N/A", groups: map[uint32]string{}}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func() ([]Column[*JobRow], error){
			func() ([]Column[*JobRow], error) { return ParseLetters(Jobs, text) },
			func() ([]Column[*JobRow], error) { return ParseNames(Jobs, text) },
			func() ([]Column[*JobRow], error) {
				var s Sheet[*JobRow]
				err := s.Choose(Jobs, text)
				return s.Columns, err
			},
		} {
			columns, err := read()
			if err != nil {
				continue
			}
			var out bytes.Buffer
			l := Lines[*JobRow]{columns, bufio.NewWriter(&out)}
			l.Header()
			l.Row(&JobRow{Job: &job, Source: src})
			if err := l.Out.Flush(); err != nil || strings.Count(out.String(), "\n") < 2 {
				t.Errorf("%q: %v %q", text, err, out.String())
			}
		}
	})
}

// TestFields: no name, letter or member is there twice, and what is cut from the wire is what is read.
func TestFields(t *testing.T) {
	checkFields(t, Jobs)
	checkFields(t, Nodes)
	whole := slurmtest.JobOf(7, "train", model.Running, "RUNNING", func(j *api.Job) {
		*j = slurmtest.LiveJobs()[0]
		j.Ended, j.Deadline, j.Eligible, j.Signal = slurmtest.Minute(30), slurmtest.Minute(40), slurmtest.Minute(2), 9
		j.Reason = api.Reason{Code: "Resources", Text: "text"}
	})
	src := &Source{Past: true, Never: "never", Cluster: "lab", groups: map[uint32]string{}}
	tag := map[string]bool{}
	text, _ := json.Marshal(whole)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		tag[name] = true
	}
	for i := range Jobs {
		f := &Jobs[i]
		some := map[string]json.RawMessage{}
		for _, name := range strings.Fields(f.needs) {
			if members[name] != nil {
				some[name] = members[name]
			}
		}
		cut, _ := json.Marshal(some)
		var less api.Job
		if err := json.Unmarshal(cut, &less); err != nil {
			t.Fatal(err)
		}
		for _, past := range []bool{false, true} {
			src.Past = past
			want, got := &JobRow{Job: &whole, Source: src}, &JobRow{Job: &less, Source: src}
			if f.text(want) != f.text(got) {
				t.Errorf("field %s%s%s needs more than %q: %q, %q", f.long, f.acct, f.key, f.needs, f.text(want), f.text(got))
			}
		}
	}
}

func checkFields[T any](t *testing.T, fields []Field[T]) {
	t.Helper()
	seen := map[string]bool{}
	once := func(kind, name string) {
		if name = strings.ToLower(name); name != "" && seen[kind+name] {
			t.Errorf("%s %s is there twice", kind, name)
		}
		seen[kind+name] = true
	}
	for i := range fields {
		f := &fields[i]
		if f.letter != 0 {
			once("letter", strconv.Itoa(int(f.letter)))
		}
		once("long", f.long)
		once("acct", f.acct)
		once("key", f.key)
		once("json", f.json)
		once("past", f.past)
		if f.text == nil {
			t.Errorf("field %d has no text", i)
		}
	}
}

// TestRowsOfAnAllocation: a job that only holds nodes for salloc or srun has steps, and no script.
func TestRowsOfAnAllocation(t *testing.T) {
	for _, c := range []struct {
		flags []string
		batch string
		steps []string
	}{
		{nil, "1", []string{"batch", "extern", "0"}}, {[]string{api.FlagAllocation}, "0", []string{"extern", "0"}},
	} {
		r := &JobRow{Source: &Source{}, Job: &api.Job{Flags: c.flags, Started: slurmtest.Minute(1), Workers: 1,
			Nodes: []string{"n1"}, Attempts: []api.Attempt{{Steps: []api.Step{{Tasks: 1, Nodes: []string{"n1"}}}}}}}
		i := slices.IndexFunc(Jobs, func(f Field[*JobRow]) bool { return f.long == "BatchFlag" })
		var steps []string
		for _, s := range r.Steps() {
			steps = append(steps, s.StepID())
		}
		if got := Jobs[i].text(r); got != c.batch || !slices.Equal(steps, c.steps) {
			t.Errorf("%v: BatchFlag=%s, steps %v", c.flags, got, steps)
		}
	}
}
