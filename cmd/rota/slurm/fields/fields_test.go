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

// FuzzFormats reads any text as a format. What can be read can be written.
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
	}{{nil, "1", []string{"batch", "0"}}, {[]string{api.FlagAllocation}, "0", []string{"0"}}} {
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
