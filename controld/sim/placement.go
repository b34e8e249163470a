package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model/cluster"
)

// paperKeys are the parameters of the FitGpp paper's policies. The first has no effect on policies
// that ignore size and grace.
var paperKeys = []policyKey{
	{"s", "weight of a victim's grace period relative to its size, such as 4", func(p *cluster.Policy,
		value string) error {
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || !(s >= 0 && s <= 1e6) {
			return fmt.Errorf("%q is not a number from 0 to 1000000", value)
		}
		if p.GraceWeight = int64(math.Round(s * 1000)); p.GraceWeight == 0 {
			p.GraceWeight = -1
		}
		return nil
	}},
	{"p", "how often one job may be preempted, or inf", func(p *cluster.Policy, value string) error {
		if value == "inf" {
			p.MaxPreempts = -1
			return nil
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 1_000_000_000 {
			return fmt.Errorf("%q is neither a whole number from 1 to 1000000000 nor inf", value)
		}
		p.MaxPreempts = n
		return nil
	}},
	fitKey, seedKey,
}

// rotaPreemptKeys are the parameters of how policy rota preempts.
var rotaPreemptKeys = []policyKey{
	paperKeys[0], {"p", "how often one job may be preempted in a day, or inf", paperKeys[1].set},
	{"min_runtime", "jobs that have run for less are preempted only if no others can be",
		positiveDuration(func(p *cluster.Policy) *int64 { return &p.MinRuntimeMS })},
	{"min_turn", "how long a job runs before one with less attained service replaces it, or never",
		func(p *cluster.Policy, value string) error {
			if value == "never" {
				p.MinTurnMS = -1
				return nil
			}
			return positiveDuration(func(p *cluster.Policy) *int64 { return &p.MinTurnMS })(p, value)
		}},
	{"headroom", "most GPUs that are kept free for trial-and-error jobs, in thousandths of all GPUs",
		func(p *cluster.Policy, value string) error {
			err := whole(0, 1000, func(p *cluster.Policy) *int64 { return &p.HeadroomPM })(p, value)
			if p.HeadroomPM == 0 {
				p.HeadroomPM = -1
			}
			return err
		}},
}

// oneOf is the parameter that says where single workers go.
func oneOf(names ...string) policyKey {
	list := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	return policyKey{"fit", list, func(p *cluster.Policy, value string) error {
		if !slices.Contains(names, value) {
			return fmt.Errorf("%q is not %s", value, list)
		}
		p.Placement = value
		return nil
	}}
}

// placementKeys are the parameters of policies that let the user choose where single workers go,
// and that draw nothing else. They are set in the order of their names, so that fit is known when
// seed is set.
var placementKeys = []policyKey{fitKey, {seedKey.name, seedKey.what, func(p *cluster.Policy, value string) error {
	if p.Placement != "random" {
		return errors.New("seed needs fit=random")
	}
	return seedKey.set(p, value)
}}}

var (
	fitKey   = oneOf("first", "best", "worst", "random", "frag")
	obeysKey = policyKey{"random_obeys_p",
		"no: victims drawn at random, because no single victim makes room, may be preempted more often than p, as in the " +
			"paper",
		func(p *cluster.Policy, value string) error {
			if value != "yes" && value != "no" {
				return fmt.Errorf("%q is neither yes nor no", value)
			}
			p.RandomUncapped = value == "no"
			return nil
		}}
	seedKey = policyKey{"seed", "of random draws, instead of --seed", func(p *cluster.Policy, value string) error {
		seed, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seed == 0 { // 0 stands for the seed of the run
			return fmt.Errorf("%q is not a whole number from 1 to %d", value, uint64(math.MaxUint64))
		}
		p.Seed = seed
		return nil
	}}
)
