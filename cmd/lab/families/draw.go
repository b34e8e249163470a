package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// workload is one draw: a member of a family and the cluster that it is for.
type workload struct {
	Draw  int     `json:"draw"`
	Kind  string  `json:"kind"` // similar or mixed
	Nodes int     `json:"nodes"`
	Users int     `json:"users"`
	Hours int     `json:"mean_h"`
	Sigma float64 `json:"sigma"`
	Load  float64 `json:"load"`
	Jobs  int     `json:"jobs"`
	Seed  uint64  `json:"seed"`

	// Quotas makes every user an account, and all have the same quota.
	Quotas bool `json:"quotas,omitempty"`
}

// How jobs are stopped and started again, as options of rota sim have it.
const (
	overheadText = "60s"
	graceText    = "3m:20m"
	overheadMS   = 60_000
	graceMS      = 180_000
	graceMostMS  = 1_200_000
)

// Jobs of a draw. They arrive for at least five mean lengths on the cluster, but las is simulated
// within seconds. A heavy tail needs a longer window before jobs queue.
const (
	leastJobs   = 400
	mostJobs    = 1200 // of similar lengths; twice as many of mixed ones
	jobsPerNode = 40
)

// drawWorkload returns a draw by its number, from 1. It depends on the seed and the number alone.
// Every third has similar lengths.
func drawWorkload(seed uint64, draw, jobs int) workload {
	r := rand.New(rand.NewPCG(seed, uint64(draw)))
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	hundredths := func(least, most int) float64 { return float64(least+r.IntN(most-least+1)) / 100 }
	w := workload{Draw: draw, Kind: "mixed", Nodes: pick(4, 8, 16, 32, 64), Users: pick(1, 2, 4, 6, 10, 20, 40),
		Hours: pick(1, 2, 4, 8, 12, 24), Load: hundredths(80, 115), Sigma: hundredths(40, 250), Jobs: jobs,
		Seed: uint64(r.Uint32())}
	if draw%3 == 0 {
		w.Kind, w.Sigma = "similar", hundredths(10, 30)
	}
	if jobs == 0 {
		w.Jobs = min(max(leastJobs, jobsPerNode*w.Nodes), mostJobs)
		if w.Kind == "mixed" {
			w.Jobs *= 2
		}
	}
	return w
}

// trace is the workload as rota sim --trace has it. Its jobs are rigid: the rivals do not resize,
// and what a policy gains by that would hide what it loses by its order.
func (w *workload) trace() string {
	text := fmt.Sprintf("gen:%s:jobs=%d,users=%d,mean=%dh,sigma=%g,load=%g,elastic=0%%",
		w.Kind, w.Jobs, w.Users, w.Hours, w.Sigma, w.Load)
	if w.Quotas {
		text += fmt.Sprintf(",accounts=%d", w.Users)
	}
	return text
}

// nodes is the cluster as rota sim --nodes has it.
func (w *workload) nodes() string { return fmt.Sprintf("%dx32c/256g/8gpu", w.Nodes) }

// command is the command line that repeats the draw.
func (w *workload) command(judged string) string {
	compared := make([]string, 0, len(rivals)+len(oracles))
	for _, p := range append(rivals[:], oracles[:]...) {
		compared = append(compared, p.text)
	}
	quotas := ""
	if w.Quotas {
		quotas = " --deserved equal"
	}
	return fmt.Sprintf("rota sim --trace %s --nodes %s --seed %d --overhead %s --grace %s%s --policy %s --compare %s",
		w.trace(), w.nodes(), w.Seed, overheadText, graceText, quotas, judged, strings.Join(compared, ","))
}
