package estimate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
)

// StepRate is how fast a job was with a number of elastic workers, all on one node or on several.
type StepRate struct {
	Size   int   `json:"size"`
	Spread bool  `json:"apart,omitempty"` // on several nodes
	Nodes  int   `json:"nodes,omitempty"` // of a gang with a fixed number of workers: on so many
	Rate   int64 `json:"rate"`            // steps in 1,000 s
}

// compare orders by size, those on one node first.
func (p StepRate) compare(o StepRate) int {
	if c := cmp.Or(cmp.Compare(p.Size, o.Size), cmp.Compare(p.Nodes, o.Nodes)); c != 0 || p.Spread == o.Spread {
		return c
	}
	if o.Spread {
		return -1
	}
	return 1
}

// stepRateOf is what the rate of an attempt says.
func stepRateOf(e model.Elastic, a *model.Attempt) StepRate {
	p := StepRate{Size: len(a.Workers) - e.Fixed, Rate: a.Rate}
	for _, w := range a.Workers[e.First : e.First+p.Size] {
		p.Spread = p.Spread || w.Node != a.Workers[e.First].Node
	}
	return p
}

// gangRateOf is what the rate of an attempt of a gang says.
func gangRateOf(j *model.Job, a *model.Attempt) StepRate {
	return StepRate{Size: j.Workers, Nodes: a.NodeCount(), Rate: a.Rate}
}

// StepRates is how fast the jobs of one user with one name were, by size, and how much they took.
type StepRates struct {
	At    model.Instant `json:"at"` // of the last measurement
	Sizes []StepRate    `json:"sizes"`

	Ended int64 `json:"ended,omitempty"` // of them, how many have completed
	// what one of these took in all, as [model.Job.Attained] counts it: the mean, in which the last
	// ones count for most
	Service int64 `json:"service,omitempty"`
}

// servicesKept is after how many completed jobs what the earlier ones took counts for about a
// third.
const servicesKept = 8

// RateKey names jobs that are taken to be alike.
func RateKey(j *model.Job) string { return j.Owner.User + "/" + j.Spec.Name }

// gangKey names gangs that are taken to be alike: they train the same on workers of the same size.
func gangKey(j *model.Job) string {
	return RateKey(j) + "*" + strconv.FormatInt(j.Request.Active.GPUs, 10)
}

// oldestRated returns the key that was measured longest ago, to be evicted.
func oldestRated(all map[string]StepRates) string {
	oldest := ""
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if oldest == "" || all[key].At < all[oldest].At {
			oldest = key
		}
	}
	return oldest
}

// With returns the paces with one more measurement.
func (p StepRates) With(n StepRate, at model.Instant) StepRates {
	p.At, p.Sizes = at, slices.Clone(p.Sizes)
	i, known := slices.BinarySearchFunc(p.Sizes, n, StepRate.compare)
	switch {
	case known:
		p.Sizes[i].Rate = (p.Sizes[i].Rate + n.Rate) / 2
	case len(p.Sizes) < maxRatesPerName:
		p.Sizes = slices.Insert(p.Sizes, i, n)
	}
	return p
}

// Bounds of what is learnt of speeds.
const (
	maxRatedNames   = 512 // names
	maxRatesPerName = 64  // sizes of one name, those on one node and on several told apart
)
