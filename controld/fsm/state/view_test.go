package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// ids lists the ids of jobs.
func ids(jobs iter.Seq[*model.Job]) string {
	var list []string
	for j := range jobs {
		list = append(list, fmt.Sprint(j.ID))
	}
	return strings.Join(list, " ")
}

// idOf is the id of a job, 0 for none.
func idOf(j *model.Job) model.JobID {
	if j == nil {
		return 0
	}
	return j.ID
}

// desired lists what a node should run, as job/worker.
func desired(v *View, node string) string {
	var list []string
	for _, w := range v.Desired(node) {
		list = append(list, fmt.Sprintf("%d/%d", w.Job.ID, w.Worker))
	}
	return strings.Join(list, " ")
}

// TestWhatAViewShows asks a view of the small cluster everything that a scheduler, a node or a user
// may ask. Job 1 runs on n1 and n2, and job 2 has ended. Job 3 is an array whose first task, job 4,
// is on n3. Job 8 waits for job 1, and job 9 waits for room on n3, which is reserved for it.
func TestWhatAViewShows(t *testing.T) {
	s := newScene(t)
	v := s.s.View()
	port := func(node string, taken ...int) string {
		p, ok := v.FreePort(node, taken...)
		return fmt.Sprint(p, ok)
	}
	node := func(name string) string {
		n, at := v.Node(name)
		if n == nil {
			return fmt.Sprint("none ", at)
		}
		return fmt.Sprint(n.Name, " ", at)
	}
	parent := func(id model.JobID) string {
		j, n := v.ParentOf(id)
		return fmt.Sprint(idOf(j), "/", n)
	}
	first := func(list iter.Seq[*model.Job]) string { // as of a caller that has seen enough
		for j := range list {
			return fmt.Sprint(j.ID)
		}
		return ""
	}
	for _, c := range []struct {
		what string
		got  any
		want string
	}{
		{"where it is", []any{v.Index(), v.At(), v.Wall(), v.LastJob(), v.LastSeq(), v.Trimmed(), v.Weight()},
			"[20 11000 1700000011000 9 1 0 9]"},
		{"all jobs", ids(v.Jobs()), "1 2 3 4 8 9"}, {"jobs after 3", ids(v.JobsAfter(3)), "4 8 9"},
		{"jobs after 4", ids(v.JobsAfter(4)), "8 9"}, {"the first after 3", first(v.JobsAfter(3)), "4"},
		{"jobs with an attempt", ids(v.Live()), "1 4"}, {"how many", v.CountLive(), "2"},
		{"jobs without one", ids(v.Unassigned()), "2 3 8 9"}, {"with a deadline", ids(v.WithDeadline()), "9"},
		{"with dependencies", ids(v.WithDependencies()), "8"}, {"without any dependencies", v.NoDependencies(), "false"},
		{"finished ones", ids(slices.Values(v.Finished(0))), "2"},
		{"finished after the last", ids(slices.Values(v.Finished(1))), ""},
		{"the job before 8, and 7", []any{idOf(v.JobBefore(8)), idOf(v.JobBefore(7)), idOf(v.JobBefore(0))}, "[8 4 0]"},
		{"when jobs changed", []any{v.JobModified(1), v.JobModified(7)}, "[20 0]"},
		{"when nodes changed", []any{v.NodeModified("n1"), v.NodeModified("n9")}, "[20 0]"},
		{"nodes by name", []string{node("n1"), node("n2"), node("n3"), node("n0"), node("n22"), node("n4")},
			"[n1 0 n2 1 n3 2 none -1 none -1 none -1]"},
		{"what n1 should run", desired(v, "n1"), "1/0"}, {"what n2 should run", desired(v, "n2"), "1/1"},
		{"what n3 should run", desired(v, "n3"), "4/0"}, {"what an unknown node should run", desired(v, "n9"), ""},
		{"workers that hold room on n2", v.HeldOn(1), "[{1 1}]"},
		{"jobs on n3, behind others", v.JobsOnNode([]model.JobID{77}, 2), "[77 4]"},
		{"jobs on a node that there is not", v.JobsOnNode([]model.JobID{77}, 9), "[77]"},
		{"ports in use", []any{v.PortsUsed("n1"), v.PortsUsed("n2"), v.PortsUsed("n9")}, "[[20000] [] []]"},
		{"free ports", []string{port("n1"), port("n2"), port("n1", 20002, 20001), port("n1", 20001, 20002, 20003),
			port("n2", 20000, 20001, 20002), port("n9")}, "[20001 true 20000 true 20003 true 0 false 20003 true 0 false]"},
		{"when all on n1 was free", v.FreedAt(0), "1000"},
		{"when nothing runs any more on n1", v.LostAt(v.Nodes()[0]), "631000"}, // 1,000 and 10 minutes and 30 s
		{"rooms that are kept", []any{len(v.Reservations()), v.Reservation(9).Job, v.Reservation(8) == nil}, "[1 9 true]"},
		{"whose task it is", []string{parent(3), parent(4), parent(7), parent(8), parent(2), parent(0), parent(99)},
			"[0/0 3/1 3/4 0/0 0/0 0/0 0/0]"},
		{"task 1, 2 and those of no array", []any{idOf(v.Child(3, 1)), idOf(v.Child(3, 2)), idOf(v.Child(1, 1)),
			idOf(v.Child(3, 5))}, "[4 0 0 0]"},
		{"tasks that were made", ids(v.ChildrenOf(3)), "4"}, {"tasks of a job without", ids(v.ChildrenOf(1)), ""},
		{"tasks of no job", ids(v.ChildrenOf(99)), ""},
		{"names", []string{v.NameOf(1), v.NameOf(3), v.NameOf(4), v.NameOf(7), v.NameOf(8)}, "[1 3 3_0 3_3 8]"},
		{"how far jobs are", []any{v.Progress(1), v.Progress(2), v.Progress(4), v.Progress(5), v.Progress(8), v.Progress(99)},
			"[{true false false} {true true true} {false false false} {false false false} {false false false} " +
				"{true true false}]"},
		{"what nodes have", *v.Inventory(), "{{96 786432 24000 []} {96 786432 24000 []} {96 786432 0 []}}"},
		{"models that are told apart", len(v.Models()), "0"},
		{"jobs that depend on 1", s.s.DependentsOf(1), "[8]"}, {"jobs that depend on 2", s.s.DependentsOf(2), "[]"},
		{"what alice has not finished", []any{s.s.Unfinished(1000), s.s.Unfinished(1001)}, "[8 0]"},
		{"the newest of a name", []any{s.s.NewestNamed(1000, "waiting"), s.s.NewestNamed(1000, "x"),
			s.s.NewestNamed(1001, "waiting")}, "[9 0 0]"},
		{"an open one of the name before", []any{s.s.OpenNamedBefore(s.waiting), s.s.OpenNamedBefore(&model.Job{ID: 10,
			Spec: s.waiting.Spec, Owner: s.waiting.Owner})}, "[0 9]"},
		{"elastic jobs at the head", v.ElasticHeads(), "0"}, {"more follows", v.HasUnsettled(), "false"},
		{"nodes for all", v.EligibleNodes("") == nil, "true"}, {"nodes for n3 alone", v.EligibleNodes(`nodes "n3"`), "[4]"},
		{"accounts", []any{v.KnowsAccount("default"), len(v.CreatedAccounts())}, "[false 0]"},
		{"room of a job that has its node for itself", []any{v.WholeOf(model.Request{Exclusive: true}, 0).Cores,
			v.WholeOf(model.Request{}, 0).Cores}, "[32 0]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	for ref, head := range v.QueueHeads() {
		if g := v.QueueGroupAt(ref); g == nil || g.Head.Job != head.Job {
			t.Errorf("group %d begins with job %d: %+v", ref, head.Job, g)
		}
	}
	var shapes, pages, holds []string
	for sh := range v.waitingShapes() {
		shapes = append(shapes, fmt.Sprintf("%q", sh.Constraints))
	}
	for p := range v.AttemptPages {
		pages = append(pages, fmt.Sprint(p.First(), p.Has(p.First()-1), p.Has(p.First()), p.Has(p.First()+511),
			p.Has(p.First()+512)))
		for r := range p.Runs {
			for _, h := range r.Holds {
				holds = append(holds, fmt.Sprintf("%d:%d of %d", h.Node, h.Room.Active.GPUs, r.Job.ID))
			}
		}
	}
	if slices.Sort(shapes); fmt.Sprint(shapes) != `["" "" "nodes \"n3\""]` {
		t.Errorf("waiting jobs have the conditions %v", shapes)
	}
	if want := "[0 false true true false]"; len(pages) != 1 || !strings.HasPrefix(fmt.Sprint(pages), "[0 false true") {
		t.Errorf("pages of attempts %v, want %s", pages, want)
	}
	if fmt.Sprint(holds) != "[0:2000 of 1 1:2000 of 1 2:1000 of 4]" {
		t.Errorf("attempts hold %v", holds)
	}
	if v.LiveAttempt(1).Job != s.run || v.LiveAttempt(9) != nil {
		t.Error("attempts are not their jobs'")
	}
	u := s.s.v.usageCounters.Of(s.run.Association())
	if u.Held.GPUs != 5000 || u.Requested.GPUs != 4000 || u.Jobs != 4 || u.Held.Memory != 3*8192 {
		t.Errorf("alice holds and asks for %+v", u)
	}
}

// TestWhatAJobWaitsFor reads the reasons that users see.
func TestWhatAJobWaitsFor(t *testing.T) {
	v := newScene(t).s.View()
	on := func(kind string, any bool, jobs ...model.JobID) model.OpenDependency {
		return model.OpenDependency{Type: kind, Jobs: jobs, Any: any}
	}
	for _, c := range []struct {
		on   []model.OpenDependency
		want string
	}{
		{nil, ""},
		{[]model.OpenDependency{on(model.NeedAfter, false, 1)}, "it waits for job 1 to start (after)"},
		{[]model.OpenDependency{on(model.NeedAfterOK, false, 1, 5)}, "it waits for job 1 and job 3_1 to end well (afterok)"},
		{[]model.OpenDependency{on(model.NeedAfterAny, true, 1, 8, 9)},
			"it waits for job 1 or job 8 or job 9 to end (afterany)"},
		{[]model.OpenDependency{on(model.NeedAfterNotOK, false, 1, 3, 8, 9)},
			"it waits for job 1 and job 3 and job 8 and 1 more to end otherwise than well (afternotok)"},
		{[]model.OpenDependency{on(model.NeedAfterCorr, false, 3), on(model.NeedSingleton, false, 8)},
			"it waits for job 3 to have elements that ended well (aftercorr), and for job 8 of its name to end (singleton)"},
	} {
		got := v.DependencyReason(&model.Job{Dependencies: c.on})
		if got.Text != c.want || (c.on != nil) != (got.Code == model.ReasonDependency) {
			t.Errorf("%+v: %+v", c.on, got)
		}
		if c.on != nil && got.For != c.on[0].Jobs[0] {
			t.Errorf("%+v: for job %d", c.on, got.For)
		}
	}
}

// limited fails once so many bytes have been written.
type limited struct{ left int }

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// TestASnapshotIsWholeOrRefused damages the snapshot of the small cluster in one way after the
// other. A replica that reads half a state, or another one, would decide otherwise than the rest.
func TestASnapshotIsWholeOrRefused(t *testing.T) {
	file, err := os.ReadFile("testdata/scene.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(file), "\n"), "\n")
	find := func(lines []string, part string) int {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, part) })
		if i < 0 {
			t.Fatalf("no line has %s", part)
		}
		return i
	}
	swap := func(part, is string) func([]string) []string {
		return func(l []string) []string {
			i := find(l, part)
			l[i] = strings.Replace(l[i], part, is, 1)
			return l
		}
	}
	without := func(part string) func([]string) []string {
		return func(l []string) []string {
			i := find(l, part)
			return slices.Delete(l, i, i+1)
		}
	}
	behind := func(part string, more ...string) func([]string) []string {
		return func(l []string) []string { return slices.Insert(l, find(l, part)+1, more...) }
	}
	both := func(a, b func([]string) []string) func([]string) []string {
		return func(l []string) []string { return b(a(l)) }
	}
	end := func(n int) func([]string) []string { return swap(`{"end":19}`, fmt.Sprintf(`{"end":%d}`, n)) }
	const zero = `{"at":0,"wall":0}`
	account := func(name string) string {
		return `{"account":{"name":"` + name + `","by":"","created":` + zero + "}}\n"
	}
	token := `{"api_token":{"id":"b","digest":"` + strings.Repeat("00", 32) + `","user":{"uid":0,"gid":0,"user":"u"},` +
		`"by":"u","scope":"read","created":` + zero + `,"expires":` + zero + "}}\n"
	for _, c := range []struct {
		name   string
		damage func([]string) []string
		want   string // part of the error; "" if it is read
	}{
		{"nothing", func(l []string) []string { return l }, ""},
		{"no head", func([]string) []string { return nil }, "head"},
		{"another form", swap("rota-snapshot/1", "rota-snapshot/2"), `it has format "rota-snapshot/2"`},
		{"another data format", swap(DataFormat, "0"), `with data format "0"`},
		{"no end", without(`{"end"`), "record 19"},
		{"an end too early", end(18), "ends after 19 of 18 records"},
		{"a record that is missing", without(`"key":"k15"`), "ends after 18 of 19 records"},
		{"something behind the end", func(l []string) []string { return append(l, "\n{}") }, "ends after 19 of 19 records"},
		{"cut off in the middle", func(l []string) []string { return append(l[:8], l[8][:20]) }, "record 7"},
		{"a record of another version", behind(`{"trust"`, `{"quota":{}}`+"\n"), "unknown field"},
		{"an empty record", behind(`{"trust"`, "{}\n"), "record 2: it has no known field"},
		{"no configuration", both(without(`{"config"`), end(18)), "no configuration"},
		{"a configuration that breaks a rule", swap(`"lease_ms":600000`, `"lease_ms":-1`), "record 0"},
		{"nodes out of order", swap(`"name":"n2"`, `"name":"n0"`), "node n0 is out of order"},
		{"a node twice", swap(`"name":"n2"`, `"name":"n1"`), "node n1 is out of order"},
		{"a node that breaks a rule", swap(`"cores":32`, `"cores":-1`), "record 3"},
		{"a job without a number", swap(`{"job":{"id":1,`, `{"job":{"id":0,`), "job 0: its number"},
		{"a job whose number was not given", swap(`{"job":{"id":9,`, `{"job":{"id":10,`), "job 10: its number"},
		{"a job twice", swap(`{"job":{"id":9,`, `{"job":{"id":8,`), "job 8: its number"},
		{"an end that was not given", swap(`"seq":1}`, `"seq":2}`), "job 2: its number"},
		{"a job that breaks a rule", swap(`"count":2,`, `"count":-2,`), "job 1"},
		{"a job in a state that there is not", swap(`"state":"PD"`, `"state":"??"`), "no such state"},
		{"a worker on an unknown node", swap(`"index":1,"node":"n2"`, `"index":1,"node":"n9"`), "job 1 worker 1: its place"},
		{"a worker with a GPU that there is not", swap(`"node":"n3","gpus":[0]`, `"node":"n3","gpus":[8]`),
			"job 4 worker 0: its place"},
		{"a worker with the last GPU", swap(`"node":"n3","gpus":[0]`, `"node":"n3","gpus":[7]`), ""},
		{"a worker with a GPU below the first", swap(`"node":"n3","gpus":[0]`, `"node":"n3","gpus":[-1]`), "job 4"},
		{"a task beyond the last", swap(`"task":1}`, `"task":5}`), "task 5 of job 3"},
		{"a task before the first", swap(`"task":1}`, `"task":0}`), "task 0 of job 3"},
		{"a task with the number of another", swap(`"task":1}`, `"task":2}`), "task 2 of job 3"},
		{"a task of a job without tasks", swap(`"parent":3,`, `"parent":2,`), "task 1 of job 2"},
		{"a task of no job", swap(`"parent":3,`, `"parent":7,`), "task 1 of job 7"},
		{"a task with a specification", swap(`{"job":{"id":4,`, `{"job":{"id":4,"children":{"size":1},`), "task 1 of job 3"},
		{"a script that was changed", swap(`true\n"}`, `false\n"}`), "a script does not match its digest"},
		{"a script twice", behind(`{"text"`, lines[find(lines, `{"text"`)]), "is duplicated"},
		{"a script that is missing", without(`{"text"`), "is not in the snapshot"},
		{"a script too many", swap(`"scripts":["`, `"scripts":["","`), "job 9"},
		{"a reservation twice", both(behind(`{"reservation"`, lines[find(lines, `{"reservation"`)]), end(20)),
			"reservation for job 9 is out of order"},
		{"accounts", both(behind(`{"config_versions"`, account("a"), account("b")), end(21)), ""},
		{"accounts out of order", both(behind(`{"config_versions"`, account("b"), account("a")), end(21)),
			`created account "a" is out of order`},
		{"an account twice", both(behind(`{"config_versions"`, account("b"), account("b")), end(21)),
			`created account "b" is out of order`},
		{"an account without a name", both(behind(`{"config_versions"`, account("")), end(20)), "created account"},
		{"an API token", both(behind(`{"config_versions"`, token), end(20)), ""},
		{"an API token twice", both(behind(`{"config_versions"`, token, token), end(21)), `API token "b" is out of order`},
		{"an API token for no user",
			both(behind(`{"config_versions"`, strings.Replace(token, `"user":"u"`, `"user":""`, 1)), end(20)),
			`API token "b"`},
	} {
		text := strings.Join(c.damage(slices.Clone(lines)), "")
		s, err := ReadSnapshot(strings.NewReader(text))
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || s != nil {
				t.Errorf("%s: %v, want something about %q", c.name, err, c.want)
			}
			if strings.HasPrefix(c.want, "record ") && strings.Contains(c.want, ":") && !errors.Is(err, model.ErrSnapshot) {
				t.Errorf("%s: %v is no ErrSnapshot", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		default:
			var again bytes.Buffer
			if err := s.View().WriteSnapshot(&again); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			read := strings.SplitAfter(strings.TrimSpace(text)+"\n", "\n")
			for i, got := range strings.SplitAfter(again.String(), "\n") {
				if i >= len(read) || got != read[i] {
					t.Errorf("%s: line %d is written as\n%s", c.name, i+1, got)
				}
			}
			if err := s.Check(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			for n := 0; n < again.Len(); n += 997 {
				if err := s.View().WriteSnapshot(&limited{n}); !errors.Is(err, io.ErrShortWrite) {
					t.Fatalf("%s: a disk that is full after %d bytes: %v", c.name, n, err)
				}
			}
		}
	}
}
