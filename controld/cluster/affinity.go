package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// preferOf writes down which nodes a group's workers would rather have: a weight and a condition a line, in order. "": it is all one.
func preferOf(spec *jobspec.Job, g *jobspec.Group) string {
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

// prefer is a text of preferOf that can be asked of nodes. It never changes.
type prefer []wish

type wish struct {
	weight int
	condition
}

// maxWeight bounds an affinity, so that sums of weights stay small.
const maxWeight = 100

func parsePrefer(text string) (prefer, error) {
	var p prefer
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		weight, rest, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(weight)
		if err != nil || n < -maxWeight || n > maxWeight {
			return nil, fmt.Errorf("an affinity's weight is %d to %d, not %s", -maxWeight, maxWeight, weight)
		}
		c, err := parseCondition(rest)
		if err != nil {
			return nil, err
		}
		p = append(p, wish{n, c})
	}
	return p, nil
}

// score adds up the weights of the conditions that hold on a node.
func (p prefer) score(n *jobspec.NodeFacts) int {
	sum := 0
	for i := range p {
		if p[i].holds(n) {
			sum += p[i].weight
		}
	}
	return sum
}
