package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// prefer is a text of preferOf that can be asked of nodes. It never changes.
type prefer []wish

type wish struct {
	weight int
	Condition
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
		if p[i].Holds(n) {
			sum += p[i].weight
		}
	}
	return sum
}
