package model

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// PreferOf writes down which nodes a group's workers would rather have: a weight and a condition a
// line, in order. "": it is all one.
func PreferOf(spec *jobspec.Job, g *jobspec.Group) string {
	var lines []string
	for _, list := range [][]jobspec.Affinity{spec.Affinities, g.Affinities} {
		for _, a := range list {
			if a.Weight != 0 {
				lines = append(lines, strconv.Itoa(a.Weight)+" "+a.Constraint.String())
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
