package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

const pastMinute = 60_000

func pastWorld(t *testing.T) *world {
	w := newWorld(t)
	cfg := cluster.DefaultConfig()
	w.must(SetConfig{Config: cfg})
	w.node("n1", 4)
	return w
}

// ended runs a job for so long and returns its id.
func (w *world) ended(d jobspec.Seconds, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	id := w.submit(1, 1, edit...)
	if err := w.start(id, "n1"); err != nil {
		w.t.Fatal(err)
	}
	w.wait(d)
	w.report(id, 0, model.WorkerExited)
	return id
}

func called(name string) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Name, j.Class = name, jobspec.BE }
}

func TestForeseeTellsNamesApart(t *testing.T) {
	w := pastWorld(t)
	for range estimate.FewestRuntimes {
		w.ended(10*60, called("short"))
		w.ended(10*3600, called("long"))
	}
	v := w.s.View()
	foresee := func(name string, ran int64) int64 {
		got, known := v.Statistics().PredictRemaining(w.job(w.submit(1, 1, called(name))), ran)
		if !known {
			t.Fatalf("nothing is known of %q after %d ms", name, ran)
		}
		return got
	}
	short, long, other := foresee("short", 0), foresee("long", 0), foresee("other", 0)
	if short >= 20*pastMinute || long <= 4*60*pastMinute {
		t.Errorf("a short job takes %d min, a long one %d min", short/pastMinute, long/pastMinute)
	}
	if other < short || other >= long {
		t.Errorf("another of the user's takes %d min: between %d and %d it should be, as some of them are soon over",
			other/pastMinute, short/pastMinute, long/pastMinute)
	}
	if late := foresee("short", 60*pastMinute); late <= 3*60*pastMinute {
		t.Errorf("a short job that has outlived its like takes %d min, not what the user's long ones do", late/pastMinute)
	}
}

func TestForeseeKnowsNothingOfStrangers(t *testing.T) {
	w := pastWorld(t)
	for range estimate.FewestRuntimes - 1 {
		w.ended(600, called("short"))
	}
	probe := w.job(w.submit(1, 1, called("short")))
	if got, known := w.s.View().Statistics().PredictRemaining(probe, 0); known {
		t.Errorf("too few jobs are over, but one takes %d ms", got)
	}
	w.ended(600, called("short"))
	if _, known := w.s.View().Statistics().PredictRemaining(probe, 0); !known {
		t.Error("enough jobs are over, but nothing is known")
	}
	if got, known := w.s.View().Statistics().PredictRemaining(probe, 100*60*pastMinute); known {
		t.Errorf("none has come so far, but one takes %d ms", got)
	}
}

// TestPastsForgetTheOldest fills the table with names that are used once: those of which jobs keep
// ending stay, and so do the user and the account.
func TestPastsForgetTheOldest(t *testing.T) {
	fill := func(prefix string) *estimate.RuntimeHistory {
		s := &estimate.RuntimeHistory{}
		always := estimate.JobKind{Account: prefix + "a", User: "u", Name: "always"}
		for i := range 2 * estimate.MaxRuntimeHistories {
			near := i % (len(s.List) + 1) // where it is looked for first does not matter
			s.Add(near, &estimate.JobKind{Account: prefix + "a", User: "u",
				Name: fmt.Sprintf("%s%d", prefix, (i*7919)%(2*estimate.MaxRuntimeHistories))}, 1000, 1)
			if i%100 == 0 {
				s.Add(0, &always, 60*pastMinute, 1)
			}
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		if _, known := s.Find(&always); !known || len(s.List) != estimate.MaxRuntimeHistories {
			t.Errorf("the kind in use is known: %v; %d kinds, at most %d", known, len(s.List), estimate.MaxRuntimeHistories)
		}
		return s
	}
	plain, other := fill("m"), fill("z") // what is forgotten does not depend on names
	kept := map[string]bool{}
	for _, p := range other.List {
		kept[strings.TrimPrefix(p.Kind.Name, "z")] = true
	}
	for _, p := range plain.List {
		if !kept[strings.TrimPrefix(p.Kind.Name, "m")] {
			t.Errorf("%q is forgotten under another name", p.Kind.Name)
		}
	}
}

func TestPastsSurviveSnapshots(t *testing.T) {
	w := pastWorld(t)
	view := w.s.View()
	for range estimate.RuntimesKept + 10 {
		w.ended(600, called("short"))
	}
	if l := view.Statistics(); l != nil && l.Runtimes != nil {
		t.Error("an older view has learnt")
	}
	if err := w.s.Check(); err != nil {
		t.Error(err)
	}
	want, err := json.Marshal(w.s.v.Statistics().Runtimes)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := w.s.View().WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s.v.Statistics().Runtimes)
	if err != nil || !bytes.Equal(got, want) || s.v.Statistics().Runtimes.Used != w.s.v.Statistics().Runtimes.Used {
		t.Errorf("after the snapshot %s, before %s, %v", got, want, err)
	}
}

func TestCheckFindsBadPasts(t *testing.T) {
	a, b := estimate.JobKind{Account: "a"}, estimate.JobKind{Account: "b"}
	for _, bad := range [][]*estimate.RuntimeHistogram{
		{{Kind: b, Used: 1}, {Kind: a, Used: 2}},
		{{Kind: a, Used: 1}, {Kind: a, Used: 2}},
		{{Kind: a, Used: 1}, {Kind: b, Used: 1}},
		{{Kind: a, Used: 3}},
		{{Kind: a}},
		{{Kind: a, Used: 1, Counts: [estimate.RuntimeClasses]int8{-1}}},
		{{Kind: a, Used: 1, Counts: [estimate.RuntimeClasses]int8{60, 60}}},
	} {
		w := pastWorld(t)
		w.ended(600, called("short"))
		history := w.s.Present().Statistics().Runtimes
		history.List, history.Used = bad, 2
		if w.s.Check() == nil {
			t.Errorf("nothing is wrong with %+v", bad)
		}
	}
	for _, text := range []string{`[null]`,
		`[{"kind":{"account":"b"},"used":1,"counts":[]},{"kind":{},"used":2,"counts":[]}]`} {
		if err := json.Unmarshal([]byte(text), &estimate.RuntimeHistory{}); !errors.Is(err, model.ErrSnapshot) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPastsOfManyNamesStaySmall lets every job have a name of its own.
func TestPastsOfManyNamesStaySmall(t *testing.T) {
	w := pastWorld(t)
	for i := range estimate.MaxRuntimeHistories + 100 {
		w.ended(60, called(fmt.Sprintf("run-%d", i)))
	}
	if err := w.s.Check(); err != nil {
		t.Error(err)
	}
	data, err := json.Marshal(w.s.v.Statistics().Runtimes)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.s.v.Statistics().Runtimes.List); n != estimate.MaxRuntimeHistories ||
		len(data) > 200*estimate.MaxRuntimeHistories {
		t.Errorf("%d kinds in %d bytes", n, len(data))
	}
	if _, known := w.s.View().Statistics().PredictRemaining(w.job(w.submit(1, 1, called("never seen"))), 0); !known {
		t.Error("what is known of the user is forgotten with the names")
	}
}
