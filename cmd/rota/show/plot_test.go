package show

import (
	"bytes"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rota-hpc/rota/controld/api"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// falling is a loss as jobs report it: it falls fast at first, with a little noise.
func falling(n int) []api.Point {
	var points []api.Point
	for i := range n {
		noise := 0.05 * math.Sin(float64(i)*7)
		points = append(points, api.Point{Step: int64(100 * i), Value: 0.3 + 2.2/(1+float64(i)/8) + noise})
	}
	return points
}

// TestPlots compares drawings with a golden file.
func TestPlots(t *testing.T) {
	gap := falling(60)
	for i := 20; i < 30; i++ {
		gap[i].Value = math.NaN()
	}
	gap[40].Value = math.Inf(1)
	constant := []api.Point{{Step: 10, Value: 0.25}, {Step: 20, Value: 0.25}, {Step: 1_000_000, Value: 0.25}}
	var all strings.Builder
	for _, c := range []struct {
		what   string
		plot   Plot
		points []api.Point
	}{
		{"a loss", Plot{Width: 80}, falling(120)},
		{"a loss in ASCII", Plot{Width: 80, ASCII: true}, falling(120)},
		{"a few values", Plot{Width: 40}, falling(5)},
		{"a few values in ASCII", Plot{Width: 40, ASCII: true}, falling(5)},
		{"not all are numbers", Plot{Width: 60}, gap},
		{"one value", Plot{Width: 40}, falling(1)},
		{"always the same value", Plot{Width: 40}, constant},
		{"always the same value in ASCII", Plot{Width: 40, ASCII: true}, constant},
		{"large and negative values", Plot{Width: 40}, []api.Point{{Step: -5, Value: -1.5e308}, {Step: 5, Value: 1.5e308}}},
		{"values that differ in the ninth digit", Plot{Width: 40}, []api.Point{{Step: 1, Value: 0.123456781},
			{Step: 2, Value: 0.123456789}}},
		{"a terminal that is too narrow", Plot{Width: 5}, falling(5)},
		{"no number", Plot{Width: 40}, []api.Point{{Step: 1, Value: math.NaN()}}},
		{"nothing", Plot{Width: 40}, nil},
	} {
		var out bytes.Buffer
		if err := c.plot.Draw(&out, "loss", c.points); err != nil {
			t.Fatal(err)
		}
		all.WriteString("== " + c.what + "\n" + out.String())
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > max(c.plot.Width, 30) {
				t.Errorf("%s: %d characters: %s", c.what, n, line)
			}
			if c.plot.ASCII && !IsPlain(line) {
				t.Errorf("%s: %q is not ASCII", c.what, line)
			}
		}
	}
	const path = "testdata/plots.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != all.String() {
		t.Errorf("%s differs (%v); got\n%s", path, err, all.String())
	}
}
