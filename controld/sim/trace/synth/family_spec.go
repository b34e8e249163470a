package synth

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of the parameters of a [Family].
const (
	mostUsers    = 1000
	mostNodeGPUs = 16
	mostMean     = 30 * 24 * hour
	mostSigma    = 4000 // thousandths
	mostLoad     = 100_000
	mostWeight   = 1_000_000
)

// familyKeys describes the parameters of a family with its defaults.
func familyKeys(f Family) []generatorKey {
	weights := make([]string, len(f.Weights))
	for i, w := range f.Weights {
		weights[i] = strconv.FormatInt(w, 10)
	}
	share := func(thousandths int64) string { return fmt.Sprintf("(%g%%)", float64(thousandths)/10) }
	return []generatorKey{
		jobsKey,
		{"nodes", fmt.Sprintf("number of nodes, instead of --nodes (%d)", f.Nodes)},
		{"node_gpus", fmt.Sprintf("GPUs of a node, and most GPUs of a worker: 1, 2, 4, 8 or 16 (%d)", f.NodeGPUs)},
		{"users", fmt.Sprintf("number of users; the k-th submits 1/k as many jobs as the first (%d)", f.Users)},
		{"accounts", fmt.Sprintf("number of accounts, to which users are assigned in turn (%d)", f.Accounts)},
		{"mean", fmt.Sprintf("mean run time of best-effort jobs (%dh)", f.Mean/hour)},
		{"sigma", fmt.Sprintf("standard deviation of the logarithm of run times (%g)", float64(f.Sigma)/1000)},
		{"load", fmt.Sprintf("demand for the cluster's scarcest resource, relative to its capacity (%g)",
			float64(f.Load)/1000)},
		{"gpus", "weights of jobs of 1, 2, 4, 8 and 16 GPUs (" + strings.Join(weights, "/") + ")"},
		{"elastic", "share of best-effort jobs with GPUs that run on half to twice as many " + share(f.Elastic)},
		{"cpu", "share of jobs without GPUs " + share(f.CPU)},
		{"te", "share of trial-and-error jobs, ten minutes long on average " + share(f.TE)},
		{"saves", "share of jobs that save their work when they are stopped " + share(f.Saves)},
	}
}

// familyOf returns the defaults of a kind of workload that is a family, nil for the others.
func familyOf(kind string) *Family {
	var f Family
	switch kind {
	case "similar":
		f = SimilarFamily()
	case "mixed":
		f = MixedFamily()
	default:
		return nil
	}
	return &f
}

// setFamily sets a parameter of a family. The error has the range that is allowed.
func (g *Generator) setFamily(key, value string) (err error) {
	f := g.family
	switch key {
	case "jobs":
		err = setWhole(&g.jobs, value, trace.MaxJobs)
	case "nodes":
		err = setWhole(&f.Nodes, value, model.MaxNodes)
		g.placed = true
	case "node_gpus":
		if err = setWhole(&f.NodeGPUs, value, mostNodeGPUs); err != nil || f.NodeGPUs&(f.NodeGPUs-1) != 0 {
			err = errors.New("is 1, 2, 4, 8 or 16")
		}
	case "users":
		err = setWhole(&f.Users, value, mostUsers)
	case "accounts":
		err = setWhole(&f.Accounts, value, mostUsers)
	case "mean":
		var s jobspec.Seconds
		if s, err = jobspec.ParseSeconds(value); err == nil {
			f.Mean = int64(s) * second
		}
		if err != nil || f.Mean < shortest || f.Mean > mostMean {
			err = errors.New("is a duration from 1m to 30d")
		}
	case "sigma":
		err = setThousandths(&f.Sigma, value, 0, mostSigma)
	case "load":
		err = setThousandths(&f.Load, value, 10, mostLoad)
	case "gpus":
		err = f.setWeights(value)
	case "elastic":
		err = setShare(&f.Elastic, value)
	case "cpu":
		err = setShare(&f.CPU, value)
	case "te":
		err = setShare(&f.TE, value)
	case "saves":
		err = setShare(&f.Saves, value)
	}
	if err != nil {
		return fmt.Errorf("%w, and not %q", err, field.Shorten(value))
	}
	return nil
}

func setWhole(n *int, value string, most int64) error {
	x, err := field.Whole(value, 1, most)
	if err != nil {
		return fmt.Errorf("is a whole number from 1 to %d", most)
	}
	*n = int(x)
	return nil
}

func setThousandths(n *int64, value string, least, most int64) error {
	x, err := field.Scaled(value, 1000, most)
	if err != nil || x < least {
		return fmt.Errorf("is a number from %g to %g", float64(least)/1000, float64(most)/1000)
	}
	*n = x
	return nil
}

func setShare(n *int64, value string) error {
	digits, percent := strings.CutSuffix(value, "%")
	x, err := field.Scaled(digits, 10, 1000)
	if !percent || err != nil {
		return errors.New("is a percentage from 0% to 100%")
	}
	*n = x
	return nil
}

// setWeights reads the weights of the widths, such as 50/20/15/13/2. A width may have none.
func (f *Family) setWeights(value string) error {
	bad := fmt.Errorf("is %d whole numbers from 0 to %d, not all zero, such as 50/20/15/13/2", len(f.Weights), mostWeight)
	words := strings.Split(value, "/")
	if len(words) != len(f.Weights) {
		return bad
	}
	total := int64(0)
	for i, word := range words {
		n, err := field.Whole(word, 0, mostWeight)
		if err != nil {
			return bad
		}
		f.Weights[i] = n
		total += n
	}
	if total == 0 {
		return bad
	}
	return nil
}
