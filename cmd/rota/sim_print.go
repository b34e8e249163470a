package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/sim"
)

// print writes the results in a format.
func (s *simulation) print(results []*sim.Result, form format) error {
	switch {
	case form == formatJSON && s.several:
		return s.printSeeds(results)
	case form == formatJSON && len(results) == 1:
		return printJSON(s.world.stdout, results[0])
	case form == formatJSON:
		return printJSON(s.world.stdout, results)
	case form == formatCSV:
		return simTable(results, "").print(s.world.stdout, formatCSV, true)
	}
	return s.printTables(results)
}

// classNames are the classes of a result, in the order in which they are shown.
var classNames = []string{"te", "be", "all"}

// printTables writes for people: a table of what jobs got, one of what it cost, and what else there is to say.
func (s *simulation) printTables(results []*sim.Result) error {
	for _, class := range classNames {
		t := simTable(results, class)
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintf(s.world.stdout, "%s jobs\n", strings.ToUpper(class))
		if err := t.print(s.world.stdout, formatWide, true); err != nil {
			return err
		}
		fmt.Fprintln(s.world.stdout)
	}
	if err := costTable(results).print(s.world.stdout, formatWide, true); err != nil {
		return err
	}
	if s.several {
		fmt.Fprintln(s.world.stdout)
		if err := s.meansTable(results).print(s.world.stdout, formatWide, true); err != nil {
			return err
		}
	}
	return s.printNotes(results)
}

// printNotes writes what a reader of the tables should know, each thing once.
func (s *simulation) printNotes(results []*sim.Result) error {
	seen := map[string]bool{}
	say := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if !seen[text] {
			seen[text] = true
			fmt.Fprintln(s.world.stdout, text)
		}
	}
	const shown = 5
	for _, r := range results {
		for i, e := range r.Excluded {
			if i == shown {
				say("%s: %d more jobs fit no node", r.Trace, len(r.Excluded)-shown)
				break
			}
			say("%s: left out job %s", r.Trace, e)
		}
		for _, n := range r.Notes {
			say("%s: %s", r.Trace, n)
		}
		if r.TimedOut > 0 {
			say("%s, %s: %d jobs were killed at their time limit", r.Trace, r.Policy, r.TimedOut)
		}
		if r.Unended > 0 {
			say("%s, %s: %d jobs had not ended", r.Trace, r.Policy, r.Unended)
		}
	}
	return nil
}

// simTable is what jobs of a class got, "" for a line for each class.
func simTable(results []*sim.Result, class string) *table {
	t := &table{columns: []column{
		{title: "POLICY"}, {title: "TRACE"}, {title: "SEED", right: true}, {title: "CLASS"}, {title: "JOBS", right: true},
		{title: "SD_P50", right: true}, {title: "SD_P95", right: true}, {title: "SD_P99", right: true}, {title: "SD_P999", right: true},
		{title: "SD_MAX", right: true}, {title: "BSD_P95", right: true}, {title: "WAIT_MEAN_S", right: true}, {title: "WAIT_P95_S", right: true},
		{title: "JCT_MEAN_S", right: true}, {title: "JCT_P95_S", right: true}, {title: "JCT_P99_S", right: true},
	}}
	for _, r := range results {
		for _, name := range classNames {
			k := r.Classes[name]
			if k == nil || k.Count == 0 || class != "" && class != name {
				continue
			}
			t.add(policyOf(r), filepath.Base(r.Trace), strconv.FormatUint(r.Seed, 10), name, strconv.Itoa(k.Count),
				fixed(k.Slowdown.P50, 2), fixed(k.Slowdown.P95, 2), fixed(k.Slowdown.P99, 2), fixed(k.Slowdown.P999, 2), fixed(k.Slowdown.Max, 2),
				fixed(k.BoundedSlowdown.P95, 2), fixed(k.WaitS.Mean, 0), fixed(k.WaitS.P95, 0), fixed(k.JCTS.Mean, 0), fixed(k.JCTS.P95, 0), fixed(k.JCTS.P99, 0))
		}
	}
	return t
}

// costTable is what it cost.
func costTable(results []*sim.Result) *table {
	t := &table{columns: []column{
		{title: "POLICY"}, {title: "TRACE"}, {title: "SEED", right: true}, {title: "MAKESPAN_H", right: true},
		{title: "JOBS/MIN", right: true}, {title: "GPU%", right: true},
		{title: "CPU%", right: true}, {title: "MEM%", right: true}, {title: "PREEMPTED%", right: true}, {title: "PREEMPTIONS", right: true},
		{title: "MAX", right: true}, {title: "LOST_GPU_H", right: true}, {title: "WIDE_P95_H", right: true}, {title: "JAIN", right: true},
		{title: "RHO", right: true}, {title: "FREE_GPUS", right: true}, {title: "FRAG", right: true}, {title: "P99_US", right: true}, {title: "WALL_S", right: true},
	}}
	for _, r := range results {
		t.add(policyOf(r), filepath.Base(r.Trace), strconv.FormatUint(r.Seed, 10), fixed(r.MakespanS/3600, 1),
			fixed(r.JobsPerMin, 2), fixed(100*r.Utilisation.GPU, 1),
			fixed(100*r.Utilisation.CPU, 1), fixed(100*r.Utilisation.Memory, 1), fixed(r.PreemptedJobsPct, 2), strconv.Itoa(r.Preemptions),
			strconv.Itoa(r.PreemptionsMaxJob), fixed(r.LostGPUS/3600, 1), fixed(r.Wide.WaitS.P95/3600, 1), fixed(r.Fairness.Jain, 3),
			fixed(r.Fairness.WorstRho, 2), fixed(r.UnallocatedGPUs, 1), fixed(r.GPUFragmentation, 3), fixed(r.Decisions.P99, 0), fixed(r.WallS, 2))
	}
	return t
}

func policyOf(r *sim.Result) string {
	p := sim.Policy{Name: r.Policy, Params: r.Params}
	return p.String()
}

func fixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// seedGroup is the results of all seeds for one trace and one policy.
type seedGroup struct {
	Schema   int               `json:"schema"`
	Policy   string            `json:"policy"`
	Params   map[string]string `json:"params"`
	Trace    string            `json:"trace"`
	Seeds    []uint64          `json:"seeds"`
	Mean     map[string]any    `json:"mean"`       // of every number of the runs
	Interval map[string]any    `json:"interval95"` // half the width of the 95 % interval of that mean
	Runs     []*sim.Result     `json:"runs"`
}

// groups puts together the results that differ in the seed only, in the order of the results.
func (s *simulation) groups(results []*sim.Result) ([]*seedGroup, error) {
	var groups []*seedGroup
	byName := map[[2]string]*seedGroup{}
	for _, r := range results {
		name := [2]string{r.Trace, policyOf(r)}
		g := byName[name]
		if g == nil {
			g = &seedGroup{Schema: sim.Schema, Policy: r.Policy, Params: r.Params, Trace: r.Trace}
			byName[name] = g
			groups = append(groups, g)
		}
		g.Seeds, g.Runs = append(g.Seeds, r.Seed), append(g.Runs, r)
	}
	for _, g := range groups {
		trees := make([]map[string]any, len(g.Runs))
		for i, r := range g.Runs {
			b, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(b, &trees[i]); err != nil {
				return nil, err
			}
		}
		g.Mean, g.Interval = summarise(trees)
		for _, key := range []string{"schema", "seed"} {
			delete(g.Mean, key)
			delete(g.Interval, key)
		}
	}
	return groups, nil
}

// summarise returns the mean of every number in trees of like form, and half the width of its 95 % interval.
func summarise(trees []map[string]any) (mean, half map[string]any) {
	mean, half = map[string]any{}, map[string]any{}
	for key, v := range trees[0] {
		switch v.(type) {
		case float64:
			var values []float64
			for _, t := range trees {
				if f, ok := t[key].(float64); ok {
					values = append(values, f)
				}
			}
			mean[key], half[key] = interval(values)
		case map[string]any:
			var parts []map[string]any
			for _, t := range trees {
				if m, ok := t[key].(map[string]any); ok {
					parts = append(parts, m)
				}
			}
			m, h := summarise(parts)
			if len(m) > 0 {
				mean[key], half[key] = m, h
			}
		}
	}
	return mean, half
}

// interval returns the mean of values and half the width of its 95 % interval by Student's distribution, 0 for a single value.
func interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		return mean, 0
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
}

// student is the 97.5 % quantile of Student's distribution: exact for few degrees of freedom, close beyond.
func student(freedom int) float64 {
	few := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131}
	if freedom <= len(few) {
		return few[freedom-1]
	}
	const z = 1.959964
	return z + (z*z*z+z)/(4*float64(freedom))
}

func (s *simulation) printSeeds(results []*sim.Result) error {
	groups, err := s.groups(results)
	if err != nil {
		return err
	}
	if len(groups) == 1 {
		return printJSON(s.world.stdout, groups[0])
	}
	return printJSON(s.world.stdout, groups)
}

// meansTable is the means over the seeds of what matters most.
func (s *simulation) meansTable(results []*sim.Result) *table {
	t := &table{columns: []column{
		{title: "MEANS OF"}, {title: "TRACE"}, {title: "SEEDS", right: true}, {title: "TE_P95", right: true}, {title: "TE_P99", right: true},
		{title: "BE_P50", right: true}, {title: "BE_P95", right: true}, {title: "BE_P999", right: true}, {title: "JCT_MEAN_S", right: true},
		{title: "PREEMPTED%", right: true}, {title: "GPU%", right: true},
	}}
	groups, err := s.groups(results)
	if err != nil {
		return t
	}
	for _, g := range groups {
		cell := func(digits int, of func(*sim.Result) float64) string {
			values := make([]float64, len(g.Runs))
			for i, r := range g.Runs {
				values[i] = of(r)
			}
			mean, half := interval(values)
			return fixed(mean, digits) + "±" + fixed(half, digits)
		}
		p := sim.Policy{Name: g.Policy, Params: g.Params}
		t.add(p.String(), filepath.Base(g.Trace), strconv.Itoa(len(g.Seeds)),
			cell(2, func(r *sim.Result) float64 { return r.Classes["te"].Slowdown.P95 }),
			cell(2, func(r *sim.Result) float64 { return r.Classes["te"].Slowdown.P99 }),
			cell(2, func(r *sim.Result) float64 { return r.Classes["be"].Slowdown.P50 }),
			cell(2, func(r *sim.Result) float64 { return r.Classes["be"].Slowdown.P95 }),
			cell(2, func(r *sim.Result) float64 { return r.Classes["be"].Slowdown.P999 }),
			cell(0, func(r *sim.Result) float64 { return r.Classes["all"].JCTS.Mean }),
			cell(2, func(r *sim.Result) float64 { return r.PreemptedJobsPct }),
			cell(1, func(r *sim.Result) float64 { return 100 * r.Utilisation.GPU }))
	}
	return t
}
