package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Losses that a policy is allowed.
const (
	mostRegret  = 1.05 // of the mean, against the best of the rivals
	mostTail    = 1.3  // of the 99th percentile, against the larger of backfill's and fairshare's
	leastChoice = 1.01 // the worst mean over the best, below which a draw has no queue to order
	shownWorst  = 3
	ratioDigits = "%.3f"
)

// table is everything that is printed.
type table struct {
	Judged  string  `json:"judged"`
	Seed    uint64  `json:"seed"`
	Rows    []row   `json:"draws"`
	Summary summary `json:"summary"`
}

// row is the result of one draw.
type row struct {
	workload

	Judged  outcome               `json:"judged"`
	Rivals  [len(rivals)]outcome  `json:"rivals"`  // in the order of rivals
	Oracles [len(oracles)]outcome `json:"oracles"` // in the order of oracles

	// Regret is the judged mean over that of the best rival, Tail the judged 99th percentile over
	// the larger of backfill's and fairshare's.
	Regret float64 `json:"mean_by_best"`
	Tail   float64 `json:"p99_by_larger"`
	// Exact is the mean with exact lengths, under the better of the oracles, over that of the best
	// rival.
	Exact float64 `json:"exact_by_best"`
	// Equal says that all policies, the oracles too, have nearly the same mean. Jobs hardly wait
	// then, and the draw says nothing about the order in which they are served.
	Equal bool `json:"equal,omitempty"`
}

// newRow compares the outcomes of one draw: the judged policy's, the rivals', the oracles'.
func newRow(w workload, of []outcome) row {
	r := row{workload: w, Judged: of[0]}
	copy(r.Rivals[:], of[1:])
	copy(r.Oracles[:], of[1+len(rivals):])
	byMean := func(a, b outcome) int { return cmp.Compare(a.Mean, b.Mean) }
	best := slices.MinFunc(r.Rivals[:], byMean)
	larger := 0.0
	for i, c := range rivals {
		if c.name != "las" { // its longest jobs wait for ever longer
			larger = max(larger, r.Rivals[i].P99)
		}
	}
	r.Regret, r.Tail = ratio(r.Judged.Mean, best.Mean), ratio(r.Judged.P99, larger)
	r.Exact = ratio(slices.MinFunc(r.Oracles[:], byMean).Mean, best.Mean)
	r.Equal = slices.MaxFunc(of, byMean).Mean <= leastChoice*slices.MinFunc(of, byMean).Mean
	return r
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// summary is over all draws.
type summary struct {
	Draws     int                `json:"draws"`
	GoodMeans int                `json:"good_means"` // draws whose regret is at most mostRegret
	GoodTails int                `json:"good_tails"` // draws whose tail is at most mostTail
	Equal     int                `json:"equal"`      // draws in which all policies have nearly the same mean
	Against   map[string]float64 `json:"against"`    // mean of the ratio of means, by policy
	Regret    float64            `json:"regret"`     // mean of the draws'
	Exact     float64            `json:"exact"`      // mean of the draws'
	Worst     []int              `json:"worst"`      // draws of the largest regret, worst first
	WorstTail []int              `json:"worst_tail"` // and of the longest tail
	Unended   map[string]int     `json:"unended,omitempty"`
	WallS     map[string]float64 `json:"wall_s"`
}

func summarise(rows []row) summary {
	s := summary{Draws: len(rows), Against: map[string]float64{}, Unended: map[string]int{}, WallS: map[string]float64{}}
	for i := range rows {
		r := &rows[i]
		if r.Regret <= mostRegret {
			s.GoodMeans++
		}
		if r.Tail <= mostTail {
			s.GoodTails++
		}
		if r.Equal {
			s.Equal++
		}
		s.Regret += r.Regret / float64(len(rows))
		s.Exact += r.Exact / float64(len(rows))
		s.add("judged", &r.Judged)
		for k, c := range rivals {
			s.Against[c.name] += ratio(r.Judged.Mean, r.Rivals[k].Mean) / float64(len(rows))
			s.add(c.name, &r.Rivals[k])
		}
		for k, c := range oracles {
			s.Against[c.name] += ratio(r.Judged.Mean, r.Oracles[k].Mean) / float64(len(rows))
			s.add(c.name, &r.Oracles[k])
		}
	}
	s.Worst = worst(rows, func(r *row) float64 { return r.Regret })
	s.WorstTail = worst(rows, func(r *row) float64 { return r.Tail })
	return s
}

func (s *summary) add(name string, o *outcome) {
	s.WallS[name] += o.WallS
	if o.Unended > 0 {
		s.Unended[name] += o.Unended
	}
}

// worst returns the numbers of a few draws, those with the largest values first.
func worst(rows []row, by func(*row) float64) []int {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b row) int { return cmp.Compare(by(&b), by(&a)) })
	var numbers []int
	for i := range sorted[:min(shownWorst, len(sorted))] {
		numbers = append(numbers, sorted[i].Draw)
	}
	return numbers
}

// print writes a line for each draw and the summary. A star marks a ratio that is too large.
func (t *table) print(out io.Writer) error {
	fmt.Fprintf(out, "Hours from submission to end, mean/p99, with seed %d. las and srtf leave a job alone\n"+
		"for ten minutes; %s know how long jobs run. * is more than %g times the best mean of %s,\n"+
		"or a p99 of more than %g times the larger of backfill's and fairshare's.\n\n",
		t.Seed, names(oracles[:]), mostRegret, names(rivals[:]), mostTail)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "draw\tkind\tnodes\tusers\tmean\tsigma\tload\tjobs\t")
	for _, c := range append(rivals[:], oracles[:]...) {
		fmt.Fprintf(w, "%s\t", c.name)
	}
	fmt.Fprintf(w, "%s\tmean/best\tp99/larger\texact/best\t\n", t.Judged)
	for i := range t.Rows {
		t.Rows[i].print(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return t.Summary.print(out)
}

func (r *row) print(w io.Writer) {
	fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%dh\t%g\t%g\t%d\t", r.Draw, r.Kind, r.Nodes, r.Users, r.Hours, r.Sigma, r.Load, r.Jobs)
	for _, o := range slices.Concat(r.Rivals[:], r.Oracles[:], []outcome{r.Judged}) {
		fmt.Fprintf(w, "%.1f/%.0f\t", o.Mean, o.P99)
	}
	fmt.Fprintf(w, ratioDigits+"%s\t%.2f%s\t"+ratioDigits+"\t\n", r.Regret, star(r.Regret > mostRegret), r.Tail,
		star(r.Tail > mostTail), r.Exact)
}

func star(bad bool) string {
	if bad {
		return "*"
	}
	return " "
}

func (s *summary) print(out io.Writer) error {
	var against []string
	for _, c := range append(rivals[:], oracles[:]...) {
		against = append(against, fmt.Sprintf("%s "+ratioDigits, c.name, s.Against[c.name]))
	}
	for _, c := range slices.Concat([]contender{{"judged", ""}}, rivals[:], oracles[:]) {
		if n := s.Unended[c.name]; n > 0 {
			fmt.Fprintf(out, "\n%s: %d jobs did not end, and are not in its times", c.name, n)
		}
	}
	_, err := fmt.Fprintf(out, "\n%d draws: mean at most %g times the best in %d, p99 at most %g times the larger in %d\n"+
		"all policies within 1 %% of each other in %d: jobs hardly wait there\n"+
		"mean over theirs, on average: %s; over the best "+ratioDigits+", exact lengths "+ratioDigits+"\n"+
		"worst means: draws %s; worst p99: draws %s (-draw K prints the command that repeats draw K)\n",
		s.Draws, mostRegret, s.GoodMeans, mostTail, s.GoodTails, s.Equal, strings.Join(against, ", "), s.Regret, s.Exact,
		numbers(s.Worst), numbers(s.WorstTail))
	return err
}

func names(of []contender) string {
	list := make([]string, len(of))
	for i, c := range of {
		list[i] = c.name
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

func numbers(draws []int) string { return strings.Trim(fmt.Sprint(draws), "[]") }
