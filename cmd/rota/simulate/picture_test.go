package simulate

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/show"
)

// drawn is what a picture has, as a program that reads SVG finds it.
type drawn struct {
	width, height float64
	texts         map[string][]string // by class
	axes          [][]string          // labels of each
	series        [][][2]float64      // points of each curve
	panels        [][]int             // how many points the curves of each panel have
	bars          int
}

// elementOf is any element of an SVG with what the pictures use.
type elementOf struct{ attributes map[string]string }

func (e elementOf) number(t *testing.T, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(e.attributes[name], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.Errorf("%s=%q is no number", name, e.attributes[name])
	}
	return v
}

// readPicture parses an SVG, and fails if anything of it lies outside of its view box, or text on text.
func readPicture(t *testing.T, path string) *drawn {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &drawn{texts: map[string][]string{}}
	inside := func(what string, x, y float64) {
		if x < 0 || y < 0 || x > d.width || y > d.height {
			t.Errorf("%s: %s at %g, %g lies outside of %g x %g", path, what, x, y, d.width, d.height)
		}
	}
	read := xml.NewDecoder(strings.NewReader(string(text)))
	var class, anchor string
	var x, y, size float64
	var placed [][4]float64
	for {
		token, err := read.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		e := elementOf{map[string]string{}}
		for _, a := range start.Attr {
			e.attributes[a.Name.Local] = a.Value
		}
		switch start.Name.Local {
		case "svg":
			if _, err := fmt.Sscanf(e.attributes["viewBox"], "0 0 %g %g", &d.width, &d.height); err != nil {
				t.Fatal(err)
			}
			size = e.number(t, "font-size")
		case "g":
			if e.attributes["class"] == "axis" {
				d.axes = append(d.axes, nil)
			}
		case "line":
			inside("a line", e.number(t, "x1"), e.number(t, "y1"))
			inside("a line", e.number(t, "x2"), e.number(t, "y2"))
		case "rect":
			inside("a box", e.number(t, "x"), e.number(t, "y"))
			inside("a box", e.number(t, "x")+e.number(t, "width"), e.number(t, "y")+e.number(t, "height"))
			if e.attributes["class"] == "attempt" {
				d.bars++
			}
		case "polyline":
			var points [][2]float64
			for _, p := range strings.Fields(e.attributes["points"]) {
				var at [2]float64
				if _, err := fmt.Sscanf(p, "%g,%g", &at[0], &at[1]); err != nil {
					t.Fatalf("%s: point %q: %v", path, p, err)
				}
				inside("a point", at[0], at[1])
				points = append(points, at)
			}
			d.series = append(d.series, points)
			last := len(d.panels) - 1
			d.panels[last] = append(d.panels[last], len(points))
		case "text":
			class, anchor, x, y = e.attributes["class"], e.attributes["text-anchor"], e.number(t, "x"), e.number(t, "y")
			var s string
			if err := read.DecodeElement(&s, &start); err != nil {
				t.Fatal(err)
			}
			if class == "panel-title" {
				d.panels = append(d.panels, nil)
			}
			d.texts[class] = append(d.texts[class], s)
			if class == "x-tick" || class == "y-tick" {
				d.axes[len(d.axes)-1] = append(d.axes[len(d.axes)-1], s)
			}
			wide := 0.62 * size * float64(show.Width(s)) // of a sans-serif font
			left := x - map[string]float64{"start": 0, "middle": wide / 2, "end": wide}[anchor]
			inside("text "+s, left, y-size)
			inside("text "+s, left+wide, y+size/4)
			for _, p := range placed {
				if left < p[1] && left+wide > p[0] && y-0.8*size < p[3] && y > p[2] {
					t.Errorf("%s: text %q lies on another", path, s)
				}
			}
			placed = append(placed, [4]float64{left, left + wide, y - 0.8*size, y})
		}
	}
	return d
}

// isRound reports whether a number is 1, 2, 2.5 or 5 times a power of ten, or 0.
func isRound(v float64) bool {
	if v == 0 {
		return true
	}
	mantissa := v / math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	return slices.ContainsFunc([]float64{1, 2, 2.5, 5, 10}, func(m float64) bool { return math.Abs(mantissa-m) < 1e-6 })
}

// evenlyRound reports whether labels are a round number apart, from 0 on, or are round numbers of a logarithmic axis.
func evenlyRound(labels []float64) bool {
	step := labels[1] - labels[0]
	for i := 1; i < len(labels); i++ {
		even := math.Abs(labels[i]-labels[i-1]-step) < 1e-9*labels[i] && isRound(step)
		if labels[0] == 0 && !even || labels[0] != 0 && (!isRound(labels[i]) || labels[i] <= labels[i-1]) {
			return false
		}
	}
	return labels[0] == 0 || isRound(labels[0])
}

// check fails unless the labels of axes are round, and all curves of a panel have one length.
func (d *drawn) check(t *testing.T, what string, policies []string) {
	t.Helper()
	if !slices.Equal(d.texts["legend"], policies) {
		t.Errorf("%s: the legend is %q, and the policies are %q", what, d.texts["legend"], policies)
	}
	if len(d.panels) < 3 {
		t.Errorf("%s: %d panels", what, len(d.panels))
	}
	for i, lengths := range d.panels {
		if len(lengths) == 0 {
			continue // the attempts, which are bars
		}
		accounts := len(d.texts["account"]) > 0 && strings.HasPrefix(d.texts["panel-title"][i], "Held by")
		if !accounts && len(lengths) != len(policies) || slices.Min(lengths) != slices.Max(lengths) || lengths[0] < 2 {
			t.Errorf("%s: %s has curves of %v points for %d policies", what, d.texts["panel-title"][i], lengths, len(policies))
		}
	}
	for _, labels := range d.axes {
		values := make([]float64, len(labels))
		for i, s := range labels {
			var err error
			if values[i], err = strconv.ParseFloat(s, 64); err != nil {
				t.Errorf("%s: the label %q is no number", what, s)
			}
		}
		if n := len(values); n < 2 || n > 9 || !evenlyRound(values) {
			t.Errorf("%s: an axis has labels %v", what, labels)
		}
	}
	if len(d.axes) != 2*len(d.panels) {
		t.Errorf("%s: %d axes of %d panels", what, len(d.axes), len(d.panels))
	}
	for _, unit := range d.texts["x-title"] {
		if !slices.Contains([]string{"days", "hours", "minutes", "seconds", "time from submission to end, by run time"},
			unit) {
			t.Errorf("%s: an axis is of %q", what, unit)
		}
	}
}

const traceHead = "job_id,class,user,submit_min,cpus,ram_gb,gpus,exec_min,grace_min\n"

// TestPictures draws workloads of every size under one, two and eight policies, and reads the pictures again.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	file := func(name, lines string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(traceHead+lines), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := file("one.csv", "0,BE,u01,0,8,64,8,10,0\n")
	week := file("a&b <week>.csv", "0,BE,u01,0,8,64,8,9000,0\n1,TE,u02,60,8,64,8,30,5\n"+
		"2,BE,a-user-with-a-name-too-long-for-its-legend-and-more-than-that,100,8,64,4,400,0\n")
	instant := file("instant.csv", "0,BE,u01,0,8,64,8,0.02,0\n")
	cores := file("cores.csv", "0,BE,u01,0,8,64,0,10,0\n1,BE,u02,1,8,64,0,10,0\n")
	eight := []string{"rota", "fifo", "fairshare", "backfill", "fitgpp", "las", "sjf",
		"rota:max_bypass=64,reserve_after=10m"}
	for _, trace := range []string{one, week, instant, cores, "gen:mixed:jobs=200", "gen:poisson:jobs=3"} {
		for _, policies := range [][]string{{"rota"}, {"rota", "fifo"}, eight} {
			path := filepath.Join(dir, "a.svg")
			args := []string{"--trace", trace, "--policy", policies[0], "--plot", path, "-o", "csv"}
			if !strings.HasPrefix(trace, "gen:mixed") {
				args = append(args, "--nodes", "2x8c/64g/8gpu")
			} else {
				args = append(args, "--nodes", "40x32c/256g/8gpu")
			}
			if len(policies) > 1 {
				args = append(args, "--compare", strings.Join(policies[1:], ","))
			}
			if code, _, complaint := simulate(t, args...); code != 0 {
				t.Fatalf("%q: exit %d, %s", args, code, complaint)
			}
			d := readPicture(t, path)
			if name := filepath.Base(trace); !strings.Contains(strings.Join(d.texts["title"], ""), name+", seed 1") {
				t.Errorf("the title of %s is %q", name, d.texts["title"])
			}
			d.check(t, fmt.Sprintf("%s under %d", filepath.Base(trace), len(policies)), policies)
			if alone := len(policies) == 1; (d.bars > 0) != alone || len(d.texts["account"]) > 0 != alone {
				t.Errorf("%s under %d policies: %d bars, accounts %q", trace, len(policies), d.bars, d.texts["account"])
			}
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPicturesOfSeveralWorkloads: each has a file with its name, also two traces of one name.
func TestPicturesOfSeveralWorkloads(t *testing.T) {
	dir := t.TempDir()
	traces := []string{tinyFile(t), tinyFile(t)}
	code, _, complaint := simulate(t, "--trace", traces[0], "--trace", traces[1], "--trace", "gen:poisson:jobs=3",
		"--nodes", "1x32c/256g/8gpu", "--compare", "fifo", "--seeds", "1..2",
		"--plot", filepath.Join(dir, "a.svg"), "-o", "csv")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, complaint)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range list {
		names = append(names, filepath.Base(path))
		readPicture(t, path).check(t, filepath.Base(path), []string{"rota", "fifo"})
	}
	want := []string{"a-gen_poisson_jobs=3-seed1.svg", "a-gen_poisson_jobs=3-seed2.svg", "a-tiny.csv-seed1-2.svg",
		"a-tiny.csv-seed1.svg", "a-tiny.csv-seed2-2.svg", "a-tiny.csv-seed2.svg"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
