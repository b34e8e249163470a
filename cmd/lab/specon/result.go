package specon

import (
	"math"

	"github.com/rota-hpc/rota/jobspec/convergence"
)

// Result is what became of one run under one policy. Comparisons are with the paper's spread, for
// the same jobs.
type Result struct {
	Seed      uint64  `json:"seed"`
	MeanS     float64 `json:"mean_s"` // from arrival to end
	MakespanS float64 `json:"makespan_s"`
	GoodS     float64 `json:"good_s"` // mean time from arrival to 95 % of the quality
	Moves     int     `json:"moves"`
	FasterPct float64 `json:"faster_pct"` // jobs that end sooner, in percent of all
	BestPct   float64 `json:"best_pct"`   // by how much the one ends sooner that gains most; below 0
	LosersPct float64 `json:"losers_pct"` // jobs that end later, in percent of all
	LoseByPct float64 `json:"lose_by_pct"`
	WorstPct  float64 `json:"worst_pct"` // by how much the one ends later that loses most
}

// counts is a change that counts as one, in percent.
const counts = 0.5

// Setting is what the paper varies, and how long a move takes.
type Setting struct {
	Transit  int64   // ms for which a job does no work that moves
	Interval int64   // ms between evaluations
	Alpha    float64 // see [convergence.Tunables.AlphaProcessor]
}

// Usual is the setting of the product, with moves of a length in ms.
func Usual(transit int64) Setting {
	return Setting{Transit: transit, Interval: convergence.Use.Interval, Alpha: convergence.Use.AlphaProcessor}
}

// Run makes a run with the jobs of a seed.
func Run(w *Workload, p *Policy, set Setting, seed uint64) Result {
	jobs := w.draw(seed)
	base := simulate(jobs, &Policies[0], w.Workers, set, seed)
	e := simulate(jobs, p, w.Workers, set, seed)
	r := Result{Seed: seed, Moves: e.moves}
	n := float64(len(jobs))
	faster, losers := 0.0, 0.0
	for i := range e.runs {
		v := &e.runs[i]
		r.MeanS += float64(v.done-v.arrives) / 1000 / n
		r.GoodS += float64(v.well-v.arrives) / 1000 / n
		r.MakespanS = max(r.MakespanS, float64(v.done)/1000)
		change := 100 * (float64(v.done-v.arrives)/float64(base.runs[i].done-v.arrives) - 1)
		r.BestPct, r.WorstPct = math.Min(r.BestPct, change), math.Max(r.WorstPct, change)
		switch {
		case change < -counts:
			faster++
		case change > counts:
			losers++
			r.LoseByPct += change
		}
	}
	r.FasterPct, r.LosersPct = 100*faster/n, 100*losers/n
	if losers > 0 {
		r.LoseByPct /= losers
	}
	return r
}
