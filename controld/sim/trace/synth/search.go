package synth

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// Search is a search for the configuration that reaches an accuracy, behind other jobs or alone.
type Search struct {
	Configs int   // how many there are to try, on one GPU each
	Behind  int   // long jobs on one GPU each that arrived just before
	Keep    int   // configurations that go on after the step at which they are compared; 0: all
	AtStep  int64 // mini-batches after which that is
	GPUs    int   // of the cluster, four on a node
	Noise   int64 // thousandths of accuracy: the standard deviation of their reports
}

// DefaultSearch is the search for which Gandiva (Xiao et al., OSDI 2018) reports a speedup. The
// paper publishes neither its configurations nor their curves.
func DefaultSearch() Search { return Search{Configs: 46, AtStep: 60, GPUs: 16} }

// Cluster describes the nodes of the search, for [trace.ParseNodes].
func (s *Search) Cluster() string { return fmt.Sprintf("%dx64c/1024g/4gpu", s.GPUs/4) }

// searchCluster describes the nodes of the usual search.
func searchCluster() string {
	s := DefaultSearch()
	return s.Cluster()
}

// set reads one parameter.
func (s *Search) set(key, value string) error {
	whole := func(to *int, least, most int64) error {
		n, err := field.Whole(value, least, most)
		*to = int(n)
		return err
	}
	var err error
	switch key {
	case "configs":
		return whole(&s.Configs, 1, trace.MaxJobs/2)
	case "behind":
		return whole(&s.Behind, 0, trace.MaxJobs/2)
	case "keep":
		return whole(&s.Keep, 0, trace.MaxJobs/2)
	case "at_step":
		s.AtStep, err = field.Whole(value, 1, 1_000_000_000)
	case "gpus":
		if err = whole(&s.GPUs, 4, 100_000); err == nil && s.GPUs%4 != 0 {
			err = fmt.Errorf("%s is not a multiple of 4, as nodes have four", value)
		}
	case "noise":
		s.Noise, err = field.Scaled(value, 1000, 1000)
	}
	return err
}

// check refuses parameters that have no effect without early stopping.
func (s *Search) check(given map[string]bool) error {
	for _, key := range []string{"at_step", "noise"} {
		if given[key] && s.Keep == 0 {
			return fmt.Errorf("%s sets early stopping, which needs keep", key)
		}
	}
	return nil
}

// Work of the jobs, goal of the search, and bounds of the random numbers of a configuration. These
// are the accuracy that it reaches, and the part of its work after which it has about half of that,
// both in thousandths.
const (
	searchWork                    = 30 * minute
	searchLongWork                = 8 * hour
	searchGoal                    = 840
	searchMost                    = 860 // of the one configuration that reaches the goal
	searchLeast                   = 100 // of the others
	searchHalfLeast, searchHalfTo = 90, 110
)

// Generate draws the jobs. One configuration, drawn by chance, reaches the goal; the others end
// anywhere below it.
func (s *Search) Generate(name string, seed uint64) *trace.Trace {
	t := &trace.Trace{Name: name, Format: trace.Generated, Seed: seed}
	for i := range s.Behind {
		j := gandivaJob(i, "resnet50", 1, searchLongWork)
		j.Account = "training"
		t.Jobs = append(t.Jobs, *j)
	}
	search := &trace.Search{Goal: searchGoal}
	if s.Keep > 0 {
		search.Keep, search.AtStep = s.Keep, s.AtStep
	}
	right := source(seed, streamArrival, 0).IntN(s.Configs)
	for i := range s.Configs {
		r := source(seed, streamJob, uint64(i))
		j := gandivaJob(s.Behind+i, "resnet50", 1, searchWork)
		j.Name, j.User, j.Account, j.Submit = "search", "search", "search", 1*second
		final := searchLeast + r.Int64N(searchGoal-searchLeast)
		half := searchHalfLeast + r.Int64N(searchHalfTo-searchHalfLeast+1)
		wrong := int64(float64(float64(s.Noise) * r.NormFloat64()))
		if i == right {
			final = searchGoal + final%(searchMost-searchGoal+1)
		}
		j.Search = search
		j.Learning = &trace.Learning{Final: final, Half: searchWork * half / 1000, Error: wrong}
		t.Jobs = append(t.Jobs, *j)
	}
	return t
}
