package simulate

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/sim"
)

// print writes the results in a format.
func (s *simulation) print(results []*sim.Result, form table.Format) error {
	switch {
	case form == table.JSON && s.several:
		return s.printSeeds(results)
	case form == table.JSON && len(results) == 1:
		return table.PrintJSON(s.env.Stdout, results[0])
	case form == table.JSON:
		return table.PrintJSON(s.env.Stdout, results)
	case form == table.CSV:
		return s.printCSV(results)
	}
	return s.printTables(results)
}

// classNames are the classes of a result, in order of output.
var classNames = []string{"te", "be", everyClass}

// everyClass is the name for the jobs of all classes together.
const everyClass = "all"

// printTables prints tables of what the jobs got and what it cost, and notes.
func (s *simulation) printTables(results []*sim.Result) error {
	for _, class := range classNames {
		t := simTable(results, class)
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintf(s.env.Stdout, "%s jobs\n", strings.ToUpper(class))
		if err := t.Print(s.env.Stdout, s.env.Screen(), table.AsTable, true); err != nil {
			return err
		}
		fmt.Fprintln(s.env.Stdout)
	}
	if err := costTable(results).Print(s.env.Stdout, s.env.Screen(), table.AsTable, true); err != nil {
		return err
	}
	if t := sharingTable(results); len(t.Rows) > 0 {
		fmt.Fprintln(s.env.Stdout)
		if err := t.Print(s.env.Stdout, s.env.Screen(), table.AsTable, true); err != nil {
			return err
		}
	}
	if s.several {
		fmt.Fprintln(s.env.Stdout)
		if err := s.meansTable(results).Print(s.env.Stdout, s.env.Screen(), table.AsTable, true); err != nil {
			return err
		}
	}
	s.printNotes(show.Fold(s.env.Stdout, s.env.Screen().Width), results)
	return nil
}

// comparison returns a table of results, with more columns than those that say of which result a row is.
func comparison(titles ...string) *table.Table {
	return keyed(append([]string{"POLICY", "TRACE", ">SEED"}, titles...)...)
}

// keyed returns a table whose first three columns say of what a row is.
func keyed(titles ...string) *table.Table {
	t := table.New(titles...)
	t.Keys = 3
	t.Columns[0].Least, t.Columns[1].Least = 10, 10
	return t
}

// simTable returns the table of waiting and slowdown for one class.
func simTable(results []*sim.Result, class string) *table.Table {
	t := comparison(
		"CLASS", ">JOBS", ">SD_P50", ">SD_P95", ">SD_P99", ">SD_P999", ">SD_MAX",
		">BSD_P95", ">WAIT_MEAN_S", ">WAIT_P95_S", ">JCT_MEAN_S", ">JCT_P95_S", ">JCT_P99_S")
	for _, r := range results {
		k := r.Classes[class]
		if k == nil || k.Count == 0 {
			continue
		}
		t.Add(policyOf(r), filepath.Base(r.Trace), strconv.FormatUint(r.Seed, 10), class, strconv.Itoa(k.Count),
			decimal(k.Slowdown.P50, 2), decimal(k.Slowdown.P95, 2), decimal(k.Slowdown.P99, 2), decimal(k.Slowdown.P999, 2),
			decimal(k.Slowdown.Max, 2),
			decimal(k.BoundedSlowdown.P95, 2), decimal(k.WaitS.Mean, 0), decimal(k.WaitS.P95, 0), decimal(k.JCTS.Mean, 0),
			decimal(k.JCTS.P95, 0), decimal(k.JCTS.P99, 0))
	}
	return t
}

// costTable returns the table of utilisation, preemptions and fairness.
func costTable(results []*sim.Result) *table.Table {
	t := comparison(
		">MAKESPAN_H", ">JOBS/MIN", ">GPU%", ">CPU%", ">MEM%", ">PREEMPTED%",
		">PREEMPTIONS", ">MAX", ">LOST_GPU_H", ">WIDE_P95_H", ">JAIN", ">JAIN_USERS", ">RHO", ">FREE_GPUS", ">FRAG",
		">P99_US", ">WALL_S")
	for _, r := range results {
		t.Add(policyOf(r), filepath.Base(r.Trace), strconv.FormatUint(r.Seed, 10), decimal(r.MakespanS/3600, 1),
			decimal(r.JobsPerMin, 2), decimal(100*r.Utilisation.GPU, 1),
			decimal(100*r.Utilisation.CPU, 1), decimal(100*r.Utilisation.Memory, 1), decimal(r.PreemptedJobsPct, 2),
			strconv.Itoa(r.Preemptions),
			strconv.Itoa(r.PreemptionsMaxJob), decimal(r.LostGPUS/3600, 1),
			numberOrDash(r.Wide.Count > 0, r.Wide.WaitS.P95/3600, 1),
			decimal(r.Fairness.Jain, 3), numberOrDash(r.Fairness.JainUsers > 0, r.Fairness.JainUsers, 3),
			numberOrDash(r.Fairness.WorstRho > 0, r.Fairness.WorstRho, 2),
			decimal(r.UnallocatedGPUs, 1), decimal(r.GPUFragmentation, 3), decimal(r.Decisions.P99, 0), decimal(r.WallS, 2))
	}
	return t
}

// sharingTable returns the table of how jobs shared GPUs, of the results that say so.
func sharingTable(results []*sim.Result) *table.Table {
	t := comparison(">FEEDBACK_MEAN_S", ">FEEDBACK_P95_S", ">USEFUL%", ">SUSPENSIONS",
		">PROGRESS_JAIN", ">SEARCH_S", ">FOUND%")
	for _, r := range results {
		s := r.Sharing
		if s == nil {
			continue
		}
		search := sim.Searches{}
		if s.Search != nil {
			search = *s.Search
		}
		t.Add(policyOf(r), filepath.Base(r.Trace), strconv.FormatUint(r.Seed, 10), decimal(s.FeedbackS.Mean, 0),
			decimal(s.FeedbackS.P95, 0), decimal(100*s.UsefulUtilisation, 1), strconv.Itoa(s.Suspensions),
			decimal(s.ProgressJain, 4), numberOrDash(s.Search != nil, search.TimeS, 0),
			numberOrDash(s.Search != nil, 100*search.Found, 0))
	}
	return t
}

func policyOf(r *sim.Result) string {
	p := sim.Policy{Name: r.Policy, Params: r.Params}
	return p.String()
}

func decimal(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// numberOrDash writes a number, or a dash if it is not defined.
func numberOrDash(is bool, v float64, digits int) string {
	if !is {
		return "-"
	}
	return decimal(v, digits)
}

// seedGroup is the results of all seeds for one trace and one policy.
type seedGroup struct {
	Schema   int               `json:"schema"`
	Policy   string            `json:"policy"`
	Params   map[string]string `json:"params"`
	Trace    string            `json:"trace"`
	Seeds    []uint64          `json:"seeds"`
	Mean     map[string]any    `json:"mean"`       // of all numbers of the runs
	Interval map[string]any    `json:"interval95"` // half the width of the 95 % interval of that mean
	Runs     []*sim.Result     `json:"runs"`
}

// bySeed groups results that differ only in the seed. Results are ordered by trace, seed and
// policy.
func (s *simulation) bySeed(results []*sim.Result) [][]*sim.Result {
	n := len(s.policies)
	groups := make([][]*sim.Result, len(s.traces)*n)
	for i, r := range results {
		at := i/(n*len(s.seeds))*n + i%n
		groups[at] = append(groups[at], r)
	}
	return groups
}

// groups returns the groups of bySeed with their means.
func (s *simulation) groups(results []*sim.Result) ([]*seedGroup, error) {
	var groups []*seedGroup
	for _, runs := range s.bySeed(results) {
		r := runs[0]
		g := &seedGroup{Schema: sim.Schema, Policy: r.Policy, Params: r.Params, Trace: r.Trace, Runs: runs}
		for _, r := range runs {
			g.Seeds = append(g.Seeds, r.Seed)
		}
		groups = append(groups, g)
	}
	for _, g := range groups {
		runs := finishedRuns(g.Runs)
		trees := make([]map[string]any, len(runs))
		for i, r := range runs {
			b, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(b, &trees[i]); err != nil {
				return nil, err
			}
			dropEmpty(trees[i])
		}
		g.Mean, g.Interval = summarise(trees)
		for _, key := range []string{"schema", "seed"} {
			delete(g.Mean, key)
			delete(g.Interval, key)
		}
	}
	return groups, nil
}

// finishedRuns returns the runs that were not interrupted, or all if none finished. Means are over
// these.
func finishedRuns(runs []*sim.Result) []*sim.Result {
	ended := slices.DeleteFunc(slices.Clone(runs), func(r *sim.Result) bool { return r.Stopped })
	if len(ended) == 0 {
		return runs
	}
	return ended
}

// dropEmpty removes the numbers of classes without ended jobs.
func dropEmpty(tree map[string]any) {
	classes, _ := tree["classes"].(map[string]any)
	for name, v := range classes {
		if class, _ := v.(map[string]any); class["count"] == 0.0 {
			classes[name] = map[string]any{"count": 0.0}
		}
	}
}

// summarise returns the mean of each number in trees of the same form, and half the width of its 95
// % interval. A missing number counts as 0; a missing account does not count.
func summarise(trees []map[string]any) (mean, half map[string]any) {
	mean, half = map[string]any{}, map[string]any{}
	for _, t := range trees {
		for key := range t {
			if _, done := mean[key]; !done {
				summariseAt(key, trees, mean, half)
			}
		}
	}
	return mean, half
}

func summariseAt(key string, trees []map[string]any, mean, half map[string]any) {
	var values []float64
	var parts []map[string]any
	number := false
	for _, t := range trees {
		switch v := t[key].(type) {
		case float64:
			number = true
			values = append(values, v)
		case map[string]any:
			parts = append(parts, v)
		case nil:
			values = append(values, 0)
		}
	}
	switch {
	case number:
		mean[key], half[key] = sim.Interval(values)
	case len(parts) > 0:
		if m, h := summarise(parts); len(m) > 0 {
			mean[key], half[key] = m, h
		}
	}
}

func (s *simulation) printSeeds(results []*sim.Result) error {
	groups, err := s.groups(results)
	if err != nil {
		return err
	}
	if len(groups) == 1 {
		return table.PrintJSON(s.env.Stdout, groups[0])
	}
	return table.PrintJSON(s.env.Stdout, groups)
}

// meansTable returns the table of the most important means over the seeds.
func (s *simulation) meansTable(results []*sim.Result) *table.Table {
	t := keyed("MEANS OF", "TRACE", ">SEEDS", ">TE_P95", ">TE_P99", ">BE_P50", ">BE_P95", ">BE_P999", ">JCT_MEAN_S",
		">PREEMPTED%", ">GPU%")
	for _, runs := range s.bySeed(results) {
		runs = finishedRuns(runs)
		cell := func(runs []*sim.Result, digits int, of func(*sim.Result) float64) string {
			if len(runs) == 0 {
				return "-"
			}
			values := make([]float64, len(runs))
			for i, r := range runs {
				values[i] = of(r)
			}
			mean, half := sim.Interval(values)
			return decimal(mean, digits) + "±" + decimal(half, digits)
		}
		having := func(class string) []*sim.Result {
			return slices.DeleteFunc(slices.Clone(runs), func(r *sim.Result) bool { return r.Classes[class].Count == 0 })
		}
		slowdown := func(class string, of func(sim.Stats) float64) string {
			return cell(having(class), 2, func(r *sim.Result) float64 { return of(r.Classes[class].Slowdown) })
		}
		t.Add(policyOf(runs[0]), filepath.Base(runs[0].Trace), strconv.Itoa(len(runs)),
			slowdown("te", func(s sim.Stats) float64 { return s.P95 }),
			slowdown("te", func(s sim.Stats) float64 { return s.P99 }),
			slowdown("be", func(s sim.Stats) float64 { return s.P50 }),
			slowdown("be", func(s sim.Stats) float64 { return s.P95 }),
			slowdown("be", func(s sim.Stats) float64 { return s.P999 }),
			cell(having(everyClass), 0, func(r *sim.Result) float64 { return r.Classes[everyClass].JCTS.Mean }),
			cell(runs, 2, func(r *sim.Result) float64 { return r.PreemptedJobsPct }),
			cell(runs, 1, func(r *sim.Result) float64 { return 100 * r.Utilisation.GPU }))
	}
	return t
}
