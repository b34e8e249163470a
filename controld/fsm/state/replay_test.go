package state_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// recorded is a line of histories.jsonl, which the tests of package fsm write.
type recorded struct {
	History int             `json:"history"`
	Entry   json.RawMessage `json:"entry"`
	Outcome string          `json:"outcome"` // result, or refusal
	Events  []string        `json:"events"`
}

func histories(t *testing.T) [][]recorded {
	t.Helper()
	data, err := os.ReadFile("../testdata/histories.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]recorded
	for line := range bytes.Lines(data) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.History == len(all) {
			all = append(all, nil)
		}
		all[r.History] = append(all[r.History], r)
	}
	return all
}

// apply applies an entry and returns what became of it as the record has it.
func apply(t *testing.T, m *fsm.Machine, r recorded) string {
	t.Helper()
	e, err := fsm.Decode(r.Entry)
	if err != nil {
		t.Fatal(err)
	}
	result, err := m.Apply(m.Index()+1, e)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", result)
}

// chapter is one kind of question and a view's answers to it.
type chapter struct{ name, text string }

// describe asks a view all that it can be asked, but for what two replicas may answer differently.
func describe(v *state.View) []chapter {
	var all []chapter
	add := func(name string, write func(line func(...any))) {
		var b strings.Builder
		write(func(values ...any) { fmt.Fprintln(&b, values...) })
		all = append(all, chapter{name, b.String()})
	}
	add("numbers", func(line func(...any)) {
		line(v.Index(), v.At(), v.Wall(), v.LastJob(), v.LastSeq(), v.Trimmed(), v.Weight(), v.CountLive(), v.ElasticHeads(),
			v.NoDependencies(), v.HasUnsettled())
	})
	add("jobs", func(line func(...any)) {
		for j := range v.Jobs() {
			parent, n := v.ParentOf(j.ID)
			line(j.ID, j.State, v.NameOf(j.ID), v.Progress(j.ID), parent != nil, n)
			line(v.DependencyReason(j), v.RequestedBy(j), v.GPUEquivalentPerCore(j))
			for child := range v.ChildrenOf(j.ID) {
				line("child", child.ID, v.Child(j.ID, child.TaskNumber) == child)
			}
		}
		for id := range v.LastJob() + 3 {
			j := v.JobBefore(id)
			line(id, v.Progress(id), v.NameOf(id), j != nil && j.ID <= id, v.Reservation(id) != nil)
		}
	})
	add("lists", func(line func(...any)) {
		for j := range v.Live() {
			line("live", j.ID)
		}
		for j := range v.Unassigned() {
			line("unassigned", j.ID)
		}
		for j := range v.JobsAfter(v.LastJob() / 2) {
			line("after", j.ID)
		}
		for j := range v.WithDeadline() {
			line("deadline", j.ID)
		}
		for j := range v.WithDependencies() {
			line("dependencies", j.ID)
		}
		for _, j := range v.Finished(v.LastSeq() / 2) {
			line("finished", j.ID)
		}
	})
	add("nodes", func(line func(...any)) {
		for i, n := range v.Nodes() {
			_, at := v.Node(n.Name)
			port, free := v.FreePort(n.Name, 20001)
			line(n.Name, n.State, at, v.PortsUsed(n.Name), port, free, v.LostAt(n))
			line(v.HeldOn(i), v.JobsOnNode(nil, i), v.Grid().Free(i), v.Grid().FreeGPUs(i), v.Grid().Claimed(i))
			for _, d := range v.Desired(n.Name) {
				line("desired", d.Job.ID, d.Worker)
			}
		}
		line(*v.Inventory(), v.Models())
	})
	add("attempts", func(line func(...any)) {
		for r := range v.LiveAttempts() {
			line(r.Job.ID, r.Number, r.Holds, r.Releases, r.Held, r.Ends, r.BestEffort, r.Stopping, r.Since, r.Started, r.Grace,
				r.CheckpointEvery, r.GPUEquivalents, r.Total, r.Displaced, r.Queue, v.LiveAttempt(r.Job.ID) == r)
		}
		for p := range v.AttemptPages {
			for r := range p.Runs {
				line(p.First(), p.Has(r.Job.ID), r.Job.ID)
			}
		}
	})
	add("groups", func(line func(...any)) {
		var groups []string
		for ref, head := range v.QueueHeads() {
			g := v.QueueGroupAt(ref)
			k := g.Key
			text := k.Queue + fmt.Sprint(struct { // without the queue, which most groups do not have
				Account, User string
				Class         jobspec.Class
				Priority      int
				Shape         model.Shape
				Held          bool
				Level         int
				Licenses      string
			}{k.Account, k.User, k.Class, k.Priority, k.Shape, k.Held, k.Level, k.Licenses}, head.Job,
				v.EligibleNodes(k.Shape.Constraints))
			for _, j := range g.Jobs {
				text += fmt.Sprint(" ", j.ID)
			}
			fits, why := v.NearestFit(g.Key.Shape)
			groups = append(groups, text+fmt.Sprint(fits, why, v.CouldHoldAll(g.Key.Shape, []string{"n1"})))
		}
		sort.Strings(groups)
		line(strings.Join(groups, "\n"))
	})
	add("usage", func(line func(...any)) {
		var list []string
		for c := range v.UsageCounters() {
			list = append(list, fmt.Sprint(c.Association, c.Held, c.Requested, c.Jobs))
		}
		d := estimate.NewDecay(v.At(), estimate.HourMS)
		for u := range v.Usages() {
			whole, memory, gpus := d.PastUsage(u)
			list = append(list, fmt.Sprint(u.Association, whole, memory, gpus, d.ActiveTime(u)))
		}
		sort.Strings(list)
		line(strings.Join(list, "\n"))
	})
	add("reservations", func(line func(...any)) {
		for _, r := range v.Reservations() {
			line(*r)
		}
	})
	add(since, func(line func(...any)) {
		for j := range v.Jobs() {
			line(j.ID, j.Modified, v.JobModified(j.ID))
		}
		for i, n := range v.Nodes() {
			line(n.Name, v.NodeModified(n.Name), v.FreedAt(i))
		}
		for _, e := range v.Events(v.Index() / 2) {
			line(e)
		}
	})
	return all
}

// since is the chapter of what a replica knows from the time that it began.
const since = "since"

// digest names chapters in a few letters each.
func digest(chapters []chapter) string {
	var b strings.Builder
	for _, c := range chapters {
		h := fnv.New32a()
		h.Write([]byte(c.text))
		fmt.Fprintf(&b, " %s=%08x", c.name, h.Sum32())
	}
	return b.String()
}

// differ names the first line in which two descriptions differ, "" for none. Those of two replicas
// may differ in what each knows from the time that it began.
func differ(a, b []chapter, replicas int) string {
	for i := range a {
		if replicas > 1 && a[i].name == since {
			continue
		}
		ours, theirs := strings.Split(a[i].text, "\n"), strings.Split(b[i].text, "\n")
		for k := range max(len(ours), len(theirs)) {
			if k >= len(ours) || k >= len(theirs) || ours[k] != theirs[k] {
				return fmt.Sprintf("%s, line %d:\n%q\n%q", a[i].name, k+1, ours[min(k, len(ours)-1)], theirs[min(k, len(theirs)-1)])
			}
		}
	}
	return ""
}

// TestLogsLeadToTheSameState replays recorded histories. Each entry has the result that was
// recorded, and every invariant holds after it. A view now and then shows what it showed then, and
// never changes. A replica that begins with a snapshot, and a fork of a view, go the same way.
func TestLogsLeadToTheSameState(t *testing.T) {
	const file = "testdata/histories.txt"
	var got strings.Builder
	for i, entries := range histories(t) {
		m := fsm.New(cluster.DefaultConfig())
		auditor, err := m.Audit()
		if err != nil {
			t.Fatal(err)
		}
		var twin, fork *fsm.Machine
		var view *state.View
		var shown []chapter
		for n, r := range entries {
			if outcome := apply(t, m, r); outcome != r.Outcome {
				t.Fatalf("history %d, entry %d: %s\nwas %s", i, n+1, outcome, r.Outcome)
			}
			if err := auditor.Check(); err != nil {
				t.Fatalf("history %d, entry %d: %v", i, n+1, err)
			}
			var events []string
			for _, e := range m.Present().Events(m.Index() - 1) {
				events = append(events, fmt.Sprint(e.Type, " ", e.Job, " ", e.Attempt, " ", e.Node, " ", e.Cause, " ", e.For))
			}
			if !slices.Equal(events, r.Events) {
				t.Fatalf("history %d, entry %d: events %q\nwere %q", i, n+1, events, r.Events)
			}
			if strings.Contains(string(r.Entry), `"key":"`) {
				fork = nil // it knows no idempotency keys
			}
			for _, other := range []*fsm.Machine{twin, fork} {
				if other == nil {
					continue
				}
				if outcome := apply(t, other, r); outcome != r.Outcome {
					t.Fatalf("history %d, entry %d, another replica: %s\nwas %s", i, n+1, outcome, r.Outcome)
				}
				if err := other.Check(); err != nil {
					t.Fatalf("history %d, entry %d, another replica: %v", i, n+1, err)
				}
			}
			if n%20 != 19 {
				continue
			}
			if err := m.Check(); err != nil {
				t.Fatalf("history %d, entry %d: %v", i, n+1, err)
			}
			now := describe(m.Present())
			fmt.Fprintf(&got, "%d %d%s\n", i, n+1, digest(now))
			if twin != nil {
				if what := differ(now, describe(twin.View()), 2); what != "" {
					t.Fatalf("history %d, entry %d, from a snapshot: %s", i, n+1, what)
				}
				if what := differ(shown, describe(view), 1); what != "" {
					t.Fatalf("history %d: the view after entry %d has changed after %d: %s", i, n-19, n+1, what)
				}
			}
			view, shown = m.View(), now
			var snapshot bytes.Buffer
			if err := view.WriteSnapshot(&snapshot); err != nil {
				t.Fatal(err)
			}
			if twin, err = fsm.ReadSnapshot(&snapshot); err != nil {
				t.Fatalf("history %d, entry %d: %v", i, n+1, err)
			}
			fork = fsm.Fork(view)
		}
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i < len(was) && line == was[i] {
			continue
		}
		changed := slices.DeleteFunc(strings.Fields(line), func(f string) bool {
			return i < len(was) && slices.Contains(strings.Fields(was[i]), f)
		})
		t.Fatalf("line %d of %s is now %q: %v; if that is meant, run make golden", i+1, file, line, changed)
	}
}
