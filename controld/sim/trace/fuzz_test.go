package trace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// addInputs gives a fuzz target the inputs of the golden tests.
func addInputs(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(names) == 0 {
			f.Fatalf("no inputs %s (%v)", pattern, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
}

// fuzzProfiles are toyProfiles for fuzz targets.
func fuzzProfiles(f *testing.F) *Profiles {
	f.Helper()
	p := &Profiles{}
	for _, name := range []string{"placements.csv", "scalability.csv", "validation-64.csv", "validation-128.csv"} {
		b, err := os.ReadFile(filepath.Join("testdata", "sia", name))
		if err != nil {
			f.Fatal(err)
		}
		if err := p.Add("toy/"+name, bytes.NewReader(b)); err != nil {
			f.Fatal(err)
		}
	}
	return p
}

// checkTrace checks what holds for every trace that was read.
func checkTrace(t *testing.T, tr *Trace) {
	t.Helper()
	last, ids := int64(0), map[string]bool{}
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		if err := j.Check(); err != nil {
			t.Fatalf("job on line %d: %v", j.Line, err)
		}
		if j.Submit < last || j.Line < 1 || ids[j.ID] {
			t.Fatalf("job %q on line %d: at %d after %d, or its id is given twice", j.ID, j.Line, j.Submit, last)
		}
		last, ids[j.ID] = j.Submit, true
		for n := j.MinWorkers; n <= min(j.MaxWorkers, j.MinWorkers+8); n++ {
			if rate := j.Rate(Layout{PerNode: []int{1, n - 1}, Spread: Across}); rate < 1 || rate > maxRate {
				t.Fatalf("job %q with %d workers: rate %d", j.ID, n, rate)
			}
		}
		if j.Alone() < 1 {
			t.Fatalf("job %q takes %d ms alone", j.ID, j.Alone())
		}
		if d := j.Demand(j.MaxWorkers); d.Cores < 1 || d.Memory < 1 || d.GPUs < 0 {
			t.Fatalf("job %q demands %+v", j.ID, d)
		}
	}
	if len(tr.Jobs) == 0 || len(tr.Skipped) > tr.Bad {
		t.Fatalf("%d jobs, %d of %d bad lines kept", len(tr.Jobs), len(tr.Skipped), tr.Bad)
	}
	for _, l := range tr.Skipped {
		if l.N < 1 || l.Why == "" {
			t.Fatalf("a bad line without number or reason: %+v", l)
		}
	}
}

// FuzzRead reads anything in the format that it seems to have.
func FuzzRead(f *testing.F) {
	addInputs(f, "*.csv", "*.swf", "*.json", "sia/*.csv")
	p := fuzzProfiles(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if tr, err := Read(bytes.NewReader(b), Options{Profiles: p}); err == nil {
			checkTrace(t, tr)
		}
	})
}

// fuzzFormat reads anything as one format, so that inputs of others get past the header.
func fuzzFormat(f *testing.F, format Format, pattern string) {
	addInputs(f, pattern)
	p := fuzzProfiles(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if tr, err := Read(bytes.NewReader(b), Options{Format: format, Profiles: p}); err == nil {
			checkTrace(t, tr)
		}
	})
}

func FuzzFitGpp(f *testing.F)   { fuzzFormat(f, FitGpp, "*.csv") }
func FuzzPhilly(f *testing.F)   { fuzzFormat(f, Philly, "philly.csv") }
func FuzzSWF(f *testing.F)      { fuzzFormat(f, SWF, "*.swf") }
func FuzzOpenB(f *testing.F)    { fuzzFormat(f, OpenB, "openb.csv") }
func FuzzSia(f *testing.F)      { fuzzFormat(f, Sia, "sia/work.csv") }
func FuzzTiresias(f *testing.F) { fuzzFormat(f, Tiresias, "tiresias.csv") }
func FuzzHistory(f *testing.F)  { fuzzFormat(f, History, "*.json") }

// FuzzProfile reads anything as each file of a profile and asks it for speeds, which are never
// negative.
func FuzzProfile(f *testing.F) {
	addInputs(f, "sia/*.csv")
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &Profiles{}
		for _, name := range []string{"a/placements.csv", "a/scalability.csv", "a/validation-64.csv"} {
			_ = p.Add(name, bytes.NewReader(b)) // what is refused must not matter
		}
		a := p.ofApplication("a")
		if a == nil {
			return
		}
		for _, perNode := range [][]int{{1}, {4}, {3, 1}, {4, 4, 4}, {5, 5, 5, 5, 5}, {1, 1, 1, 1, 1, 1, 1}} {
			for _, batch := range []int64{1, 64, 1 << 20} {
				if ns := a.iteration(perNode, batch); ns < 0 {
					t.Fatalf("%v at %d: %d ns", perNode, batch, ns)
				}
			}
		}
		if a.mostWorkers(64) < 0 || a.mostWorkers(64) > MaxWorkers {
			t.Fatalf("at most %d workers", a.mostWorkers(64))
		}
	})
}

// checkNodes holds what a state demands of nodes.
func checkNodes(t *testing.T, nodes []cluster.Node) {
	t.Helper()
	names := map[string]bool{}
	if len(nodes) == 0 || len(nodes) > cluster.MaxNodes {
		t.Fatalf("%d nodes", len(nodes))
	}
	for _, n := range nodes {
		if n.Name == "" || names[n.Name] || n.Cores < 1 || n.Cores > MaxCores || n.Memory < 1 || n.Memory > MaxMemory ||
			len(n.GPUs) > MaxGPUs {
			t.Fatalf("node %+v", n)
		}
		names[n.Name] = true
	}
}

// FuzzParseNodes reads any text as a spec; an error points into it.
func FuzzParseNodes(f *testing.F) {
	for _, spec := range []string{"84x32c/256g/8gpu", "2x64c/8xH100@r1,3x64c/512GiB/8gpu:A100@r2", "8xT4/2c", "1x", "x",
		"4x4x4c", "@", "1c@,", "270000c"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		nodes, err := ParseNodes(spec)
		if err == nil {
			checkNodes(t, nodes)
			return
		}
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Column < 1 || bad.Column > len(spec)+1 || bad.Problem == "" {
			t.Fatalf("%q: %+v", spec, bad)
		}
	})
}

// FuzzReadNodes reads anything as a list of nodes.
func FuzzReadNodes(f *testing.F) {
	for _, list := range []string{"sn,cpu_milli,memory_mib,gpu,model\na,1000,1,0,\n", "# x\nn1 4c/8g\n2x4c@r1\n", "n1\n",
		"n1  4c/8q # y\n"} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if nodes, err := ReadNodes(bytes.NewReader(b)); err == nil {
			checkNodes(t, nodes)
		}
	})
}

// FuzzTexts reads any text as each of the small languages of the command line.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		"1=1 2=1.9", "node=0.9 across=0.5", "2017-09-25T00:01:57.123+02:00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCurve(text); err == nil && c.Rate(Layout{PerNode: []int{1}}) < 0 {
			t.Fatalf("curve %q", text)
		}
		if l, err := ParseLocality(text); err == nil && l.check() != nil {
			t.Fatalf("locality %q", text)
		}
		if ms, err := field.Time(text); err == nil && (ms < -24*hour || ms > 1<<48) {
			t.Fatalf("stamp %q: %d", text, ms)
		}
	})
}
