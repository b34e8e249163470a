package progress

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestNewestLine(t *testing.T) {
	for text, want := range map[string]int64{"{\"step\":1}\n": 1, "{\"step\":1}\n{\"step\":2": 1,
		"{\"step\":1}\n\n[]\n{}\n": 1, "x\n": -1, "": -1} {
		line, _, _ := newestLine([]byte(text))
		got := int64(-1)
		if line != nil {
			got = *line.Step
		}
		if got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// TestALossThatHasDiverged shows that the step of a line counts although its metric is not a
// number.
func TestALossThatHasDiverged(t *testing.T) {
	line, _, problem := newestLine([]byte(`{"step":1}` + "\n" +
		`{"step": 7, "saved_step": 5, "metrics": {"loss": NaN, "grad": -Infinity, "lr": 0.5}}` + "\n"))
	if line == nil || *line.Step != 7 || line.Saved != 5 || len(line.Metrics) != 1 || line.Metrics["lr"] != 0.5 ||
		problem != problemNumber {
		t.Fatalf("got %+v, %q", line, problem)
	}
}

// TestBadLines shows what is ignored of lines that no program should write, and what is said of it.
func TestBadLines(t *testing.T) {
	long := strings.Repeat("x", lineLimit)
	var many strings.Builder
	for i := range metricLimit + 1 {
		fmt.Fprintf(&many, `,"m%d":1`, i)
	}
	for text, want := range map[string]struct {
		step    int64 // -1: the line is ignored
		metrics int
		problem string
	}{
		"":                                    {-1, 0, ""},
		"   ":                                 {-1, 0, ""},
		"epoch 1":                             {-1, 0, problemJSON},
		"\x00\xff{":                           {-1, 0, problemJSON},
		`{"loss":1}`:                          {-1, 0, problemJSON},
		`{"step":NaN}`:                        {-1, 0, problemJSON},
		`{"step":1.5}`:                        {-1, 0, problemJSON},
		`{"step":1e400}`:                      {-1, 0, problemJSON},
		`{"step":99999999999999999999}`:       {-1, 0, problemJSON},
		`{"step":-1}`:                         {-1, 0, problemStep},
		`{"step":1,"saved_step":-5}`:          {1, 0, ""},
		`{"step":1,"metrics":{"loss":1e999}}`: {1, 0, problemNumber},
		`{"step":1,"metrics":{"loss":NaN,"b":2}}`:           {1, 1, problemNumber},
		`{"step":1,"metrics":{"loss":null}}`:                {1, 0, problemNumber},
		`{"step":1,"metrics":{"loss":"low"}}`:               {1, 0, problemNumber},
		`{"step":1,"metrics":{"a":1` + many.String() + `}}`: {1, 0, problemMetrics},
		`{"step":1,"metrics":{"` + long[:200] + `":1}}`:     {1, 0, problemMetrics},
		`{"step":1,"text":"` + long + `"}`:                  {-1, 0, problemLong},
		strings.Repeat(`{"step":`, 5000):                    {-1, 0, problemJSON},
	} {
		line, problem := parseLine([]byte(text))
		step, metrics := int64(-1), 0
		if line != nil {
			step, metrics = *line.Step, len(line.Metrics)
			if line.Saved < 0 {
				t.Errorf("%.60q: saved is %d", text, line.Saved)
			}
		}
		if step != want.step || metrics != want.metrics || problem != want.problem {
			t.Errorf("%.60q: step %d, %d metrics, %q; want %+v", text, step, metrics, problem, want)
		}
	}
}

// TestGigabytes shows that a file of gigabytes, whatever it holds, costs a bounded amount of memory,
// that it is said what is wrong with it, and that a good line at its end is found.
func TestGigabytes(t *testing.T) {
	const size = 8 << 30
	for name, c := range map[string]struct {
		end     string // of the file
		problem string
		found   bool
	}{
		"zeros":                {"", problemLong, false},
		"zeros in a line":      {"\n", problemLong, false},
		"lines without a word": {strings.Repeat("\n", readLimit), "", false},
		"nonsense":             {strings.Repeat("{x\n", readLimit/3), problemJSON, false},
		"not a number":         {strings.Repeat(`{"step":NaN}`+"\n", readLimit/13), problemJSON, false},
		"deep":                 {strings.Repeat("{\"step\":", readLimit/8) + "\n", problemLong, false},
		"good at its end":      {"\n{\"step\":7}\n" + strings.Repeat("x\n", 900), problemJSON, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "progress")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(size); err != nil { // it takes no room on the disk
				t.Skipf("no file of %d bytes can be made here: %v", int64(size), err)
			}
			from := &Source{Path: path, Stop: &jobspec.ArrayStop{Metric: "loss", AtStep: 1}}
			var tail Tail
			var line *Line
			before := memory()
			for range 20 {
				if _, err := f.WriteAt([]byte(c.end), size); err != nil {
					t.Fatal(err)
				}
				tail.offset = 0 // it has grown by gigabytes again
				if line, tail, err = tail.Read(from); err != nil {
					t.Fatal(err)
				}
			}
			if grown := memory() - before; grown > 50_000_000 {
				t.Errorf("memory has grown by %d MiB", grown>>20)
			}
			if (line != nil && *line.Step == 7) != c.found || tail.Problem != c.problem || tail.Reached != nil {
				t.Errorf("got %+v, %+v", line, tail)
			}
		})
	}
}

// memory returns how many bytes this process has had from the system at most, freed ones left out.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys) - int64(m.HeapReleased)
}

// TestASearchHasAnEnd shows that after many lines that say nothing no more are read.
func TestASearchHasAnEnd(t *testing.T) {
	text := append([]byte(`{"step":1}`+"\n"), bytes.Repeat([]byte("x\n"), badLimit)...)
	if line, whole, problem := newestLine(text); line != nil || whole != len(text) || problem != problemJSON {
		t.Errorf("got %+v, %d of %d, %q", line, whole, len(text), problem)
	}
	if line, _, _ := newestLine(text[:len(text)-2]); line == nil {
		t.Error("the line before them is not found")
	}
}
