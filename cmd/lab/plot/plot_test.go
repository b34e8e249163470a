package main

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

func result(t *testing.T, spec, policy string) *sim.Result {
	t.Helper()
	nodes, err := trace.ParseNodes("4x32c/256g/8gpu")
	if err != nil {
		t.Fatal(err)
	}
	g, err := synth.ParseGenerator(spec)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := g.Trace(1, trace.Capacity(nodes))
	if err != nil {
		t.Fatal(err)
	}
	p, err := sim.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(tr, sim.Setup{Nodes: nodes, Policy: p, Spans: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// texts parses a drawing as XML and returns its texts and the number of its shapes.
func texts(t *testing.T, drawing string) (all []string, shapes int) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(drawing))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, shapes
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			if x.Name.Local == "path" {
				shapes++
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(x)); text != "" {
				all = append(all, text)
			}
		}
	}
}

func TestWritePlot(t *testing.T) {
	for _, spec := range []string{"fitgpp:jobs=300,load=1.2", "fitgpp:jobs=1", "poisson:jobs=3000"} {
		r := result(t, spec, "fifo")
		var out strings.Builder
		if err := writePlot(&out, r); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		words, shapes := texts(t, out.String())
		for _, want := range []string{"Jobs", "Slowdown", "Accounts", "waiting", "running", "GPUs", "node"} {
			if !strings.Contains(strings.Join(words, "\n"), want) {
				t.Errorf("%s: nothing says %q", spec, want)
			}
		}
		if bars := min(len(r.Story.Spans), maxSpans); shapes < bars {
			t.Errorf("%s: %d shapes for %d attempts", spec, shapes, bars)
		}
	}
}

// TestSuspendedJobs: two jobs that take turns on a GPU are never drawn there at once, and the queue
// shows when one is suspended.
func TestSuspendedJobs(t *testing.T) {
	for policy, want := range map[string]bool{"fifo": false, "fifo:oversubscribe=2": true} {
		r := result(t, "six:jobs=34", policy)
		spans := slices.SortedFunc(slices.Values(r.Story.Spans),
			func(a, b sim.Span) int { return cmp.Compare(a.Start, b.Start) })
		until := map[sim.Row]int64{}
		for _, s := range spans {
			if row := s.Rows[0]; s.Start < until[row] {
				t.Errorf("%s: job %s begins at %d ms on a GPU that another one has until %d ms", policy, s.ID, s.Start, until[row])
			} else {
				until[row] = s.End
			}
		}
		var out strings.Builder
		if err := writePlot(&out, r); err != nil {
			t.Fatal(err)
		}
		if words, _ := texts(t, out.String()); slices.Contains(words, "suspended") != want || want != (len(spans) > 34) {
			t.Errorf("%s: %d spans, %q", policy, len(spans), words)
		}
	}
}

// TestBeginning: of a run with many attempts all that start before some instant are drawn, also
// those that end long after it.
func TestBeginning(t *testing.T) {
	at := func(id string, start, end int64) sim.Span {
		return sim.Span{ID: id, Start: start, End: end, Stopped: true}
	}
	long, short, late, last := at("long", 0, 100), at("short", 0, 5), at("late", 5, 9), at("last", 7, 8)
	byEnd := []sim.Span{short, last, late, long}
	for _, test := range []struct {
		most int
		want string
	}{
		{4, "short 5 stopped, long 100 stopped, late 9 stopped, last 8 stopped"},
		{3, "short 5 stopped, long 7, late 7"},
		{2, "short 5 stopped, long 5"},
		{1, "short 5 stopped, long 5"}, // both start at once
	} {
		var got []string
		for _, s := range beginning(byEnd, test.most) {
			text := fmt.Sprintf("%s %d", s.ID, s.End)
			if s.Stopped {
				text += " stopped"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("at most %d: %s, want %s", test.most, text, test.want)
		}
	}
	if byEnd[3].End != 100 {
		t.Error("the story itself was cut")
	}
}

func TestWriteWithoutStory(t *testing.T) {
	if err := writePlot(io.Discard, &sim.Result{Trace: "x"}); err == nil {
		t.Error("a result without a story was drawn")
	}
}

// TestSharesOfCores: without GPUs the accounts share the cores; those that held most come first.
func TestSharesOfCores(t *testing.T) {
	nodes, err := trace.ParseNodes("2x8c/32g")
	if err != nil {
		t.Fatal(err)
	}
	job := func(account string, cores, minutes int64) trace.Job {
		return trace.Job{ID: account, User: account, Account: account, Class: jobspec.BE, Priority: trace.MidPriority,
			Work: minutes * 60_000, Workers: 1,
			MinWorkers: 1, MaxWorkers: 1, Request: model.Vector{Cores: cores, Memory: jobspec.GiB}}
	}
	p, err := sim.ParsePolicy("fifo")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trace.Trace{Name: "cores", Jobs: []trace.Job{job("little", 2, 20), job("much", 8, 10)}}
	r, err := sim.Run(tr, sim.Setup{Nodes: nodes, Policy: p, Spans: true})
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := shares(r)
	if err != nil {
		t.Fatal(err)
	}
	if want := 100 * 8.0 / 16; drawn.Y.Label.Text != "% of the cores" || drawn.Y.Max != want {
		t.Errorf("the axis says %q and ends at %g, want %g", drawn.Y.Label.Text, drawn.Y.Max, want)
	}
	var out strings.Builder
	if err := writePlot(&out, r); err != nil {
		t.Fatal(err)
	}
	words, _ := texts(t, out.String())
	if text := strings.Join(words, " "); strings.Index(text, "much") > strings.Index(text, "little") ||
		!strings.Contains(text, "little") {
		t.Errorf("accounts are not in the order of what they held: %s", text)
	}
}
