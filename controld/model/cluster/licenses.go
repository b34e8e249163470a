package cluster

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// MaxLicenses bounds the kinds of licences of a cluster.
const MaxLicenses = 1000

// HeldLicenses adds up the licences that attempts in progress hold, those of suspended ones included.
// It is nil if there are none.
func HeldLicenses(live iter.Seq[*model.Job]) (held map[string]int) {
	for j := range live {
		if len(j.Spec.Licenses) > 0 && j.Live() != nil {
			if held == nil {
				held = map[string]int{}
			}
			AddLicenses(held, j)
		}
	}
	return held
}

// AddLicenses adds what one attempt of a job holds.
func AddLicenses(held map[string]int, j *model.Job) {
	for name, n := range j.Spec.Licenses {
		held[name] += n
	}
}

// LacksLicenses says which licences are missing for a job to start, the first by name, or nothing if
// none are.
func (c *Config) LacksLicenses(j *model.Job, held map[string]int) model.Reason {
	for _, name := range slices.Sorted(maps.Keys(j.Spec.Licenses)) {
		switch n, all := j.Spec.Licenses[name], c.Licenses[name]; {
		case all == 0:
			return model.Reason{Code: model.ReasonLicenses, Text: "the cluster does not have the licence " + name}
		case n > all:
			return model.Reason{Code: model.ReasonLicenses, Text: fmt.Sprintf(
				"it requests %d of licence %s, but the cluster has %d", n, name, all)}
		case held[name]+n > all:
			return model.Reason{Code: model.ReasonLicenses, Text: fmt.Sprintf(
				"it requests %d of licence %s; %d of %d are free", n, name, max(0, all-held[name]), all)}
		}
	}
	return model.Reason{}
}
