package simulate

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/sim"
)

// printCSV writes a line for each result and class, with the names and units of the JSON. The
// numbers of the class come first, then those of the run. With several seeds, lines with the means
// and half the widths of their 95 % intervals follow.
func (s *simulation) printCSV(results []*sim.Result) error {
	t := &table.Table{}
	add := func(r *sim.Result, seed, class string, numbers []figure) {
		if t.Columns == nil {
			t = table.New("policy", "trace", "seed", "class")
			for _, c := range numbers {
				t.Columns = append(t.Columns, table.Column{Title: c.name})
			}
		}
		cells := []string{policyOf(r), r.Trace, seed, class}
		for _, c := range numbers {
			cells = append(cells, strconv.FormatFloat(c.value, 'g', -1, 64))
		}
		t.Add(cells...)
	}
	for _, r := range results {
		for _, class := range classNames {
			// a run without ended jobs has a line too
			if k := r.Classes[class]; k != nil && (k.Count > 0 || class == everyClass) {
				add(r, strconv.FormatUint(r.Seed, 10), class, figuresOf(r, k))
			}
		}
	}
	if s.several {
		s.addMeans(results, add)
	}
	s.printNotes(s.env.Stderr, results)
	return t.Print(s.env.Stdout, table.Screen{}, table.CSV, true)
}

// addMeans adds two lines for each trace, policy and class.
func (s *simulation) addMeans(results []*sim.Result, add func(r *sim.Result, seed, class string, numbers []figure)) {
	for _, g := range s.bySeed(results) {
		g = finishedRuns(g)
		none := !slices.ContainsFunc(g, func(r *sim.Result) bool { return r.Classes[everyClass].Count > 0 })
		for _, class := range classNames {
			var columns [][]float64
			var mean []figure
			for _, r := range g {
				k := r.Classes[class]
				if k == nil || k.Count == 0 && !(none && class == everyClass) {
					continue
				}
				mean = figuresOf(r, k)
				if columns == nil {
					columns = make([][]float64, len(mean))
				}
				for i := range mean {
					columns[i] = append(columns[i], mean[i].value)
				}
			}
			if columns == nil {
				continue
			}
			half := make([]figure, len(mean))
			for i := range mean {
				mean[i].value, half[i].value = sim.Interval(columns[i])
			}
			add(g[0], "mean", class, mean)
			add(g[0], "interval95", class, half)
		}
	}
}

// figure is a number with the name of its column.
type figure struct {
	name  string
	value float64
}

// figuresOf returns the numbers of a class and of its run.
func figuresOf(r *sim.Result, k *sim.Class) []figure {
	return appendNumbers(appendNumbers(nil, "", reflect.ValueOf(*k)), "", reflect.ValueOf(*r))
}

// appendNumbers appends the numbers of a struct under their names in JSON. Names of inner fields
// follow a dot.
func appendNumbers(list []figure, prefix string, v reflect.Value) []figure {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		switch name = prefix + name; {
		case name == "schema" || name == "seed": // schema says nothing about the run; seed has its own column
		case f.Kind() == reflect.Struct:
			list = appendNumbers(list, name+".", f)
		case f.CanInt():
			list = append(list, figure{name, float64(f.Int())})
		case f.CanUint():
			list = append(list, figure{name, float64(f.Uint())})
		case f.CanFloat():
			list = append(list, figure{name, f.Float()})
		case name == "preempted_times_pct":
			for _, times := range []string{"1", "2", "3+"} {
				list = append(list, figure{fmt.Sprintf("%s.%s", name, times), f.MapIndex(reflect.ValueOf(times)).Float()})
			}
		}
	}
	return list
}
