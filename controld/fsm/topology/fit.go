package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// NearestFit says whether the nodes that have registered could hold a gang if they were empty, all
// up and nothing broken. If not, the reason names the nearest node and how many workers would fit.
// Or it names the condition that no node meets, and the values that nodes have. While no node has
// registered, everything may fit. Each part of a gang is looked at by itself.
func (t *NodeSets) NearestFit(nodes []*model.Node, s model.Shape) (bool, model.Reason) {
	if len(nodes) == 0 {
		return true, model.Reason{}
	}
	for part := range s.Each {
		fit, nearest := t.couldHold(nodes, part, nil)
		if fit >= part.Workers {
			continue
		}
		why := model.Reason{Code: model.ReasonBadConstraint, Need: part.Request.Active, Want: part.Workers, Fit: fit}
		if nearest != nil {
			why.Node, why.Have = nearest.Name, grid.Capacity(nearest)
		} else {
			why.Need, why.Text = model.Vector{}, UnmetConstraints(nodes, part.Constraints)
		}
		return false, why
	}
	return together(nodes, s)
}

// together says whether all that the parts of a gang need is there at all. Each part by itself has
// been found to fit.
func together(nodes []*model.Node, s model.Shape) (bool, model.Reason) {
	if s.Parts == "" {
		return true, model.Reason{}
	}
	var need, have model.Vector
	for part := range s.Each {
		need = need.Plus(part.Request.Active.Times(int64(part.Workers)))
	}
	for _, n := range nodes {
		have = have.Plus(grid.Capacity(n))
	}
	if need.Within(have) {
		return true, model.Reason{}
	}
	return false, model.Reason{Code: model.ReasonBadConstraint, Need: need, Have: have, Want: s.Total(),
		Text: "its groups need more together than there is"}
}

// couldHold counts the workers of a part that empty nodes could hold, up to the requested number.
// It also returns the node that comes nearest to holding one. It leaves out the nodes in exclude
// and nodes that do not meet the constraints.
func (t *NodeSets) couldHold(nodes []*model.Node, s model.Shape, exclude []string) (fit int, nearest *model.Node) {
	eligible := t.Eligible(s.Constraints, nodes)
	for i, n := range nodes {
		if eligible != nil && eligible[i/64]&(1<<(i%64)) == 0 || slices.Contains(exclude, n.Name) {
			continue
		}
		if nearest == nil || nearer(s.Request.Active, grid.Capacity(n), grid.Capacity(nearest)) {
			nearest = n
		}
		if fit += workersIn(s, grid.Capacity(n)); fit >= s.Workers {
			return s.Workers, nearest
		}
	}
	return fit, nearest
}

// CouldHoldAll reports whether empty nodes could hold each part of a gang, those in exclude left
// out.
func (t *NodeSets) CouldHoldAll(nodes []*model.Node, s model.Shape, exclude []string) bool {
	for part := range s.Each {
		if fit, _ := t.couldHold(nodes, part, exclude); fit < part.Workers {
			return false
		}
	}
	return true
}

// UnmetConstraints says which condition of a Where excludes all nodes, and which values they have.
// For example: "no node has node.gpu.model glob "H200*"; there are H100 (8 nodes)". "": some node
// meets it.
func UnmetConstraints(nodes []*model.Node, text string) string {
	w, err := ParseWhere(text)
	if err != nil || len(w) == 0 || len(nodes) == 0 {
		return ""
	}
	meets, allBut := make([]int, len(w)), make([]int, len(w))
	var facts jobspec.NodeFacts
	for _, n := range nodes {
		SetFacts(&facts, n)
		misses, last := 0, 0
		for i := range w {
			if w[i].Holds(&facts) {
				meets[i]++
			} else {
				misses, last = misses+1, i
			}
		}
		switch misses {
		case 0:
			return ""
		case 1:
			allBut[last]++
		}
	}
	if i := slices.Index(meets, 0); i >= 0 {
		return instead(nodes, &w[i])
	}
	if most := slices.Max(allBut); most > 0 {
		i := slices.Index(allBut, most)
		return fmt.Sprintf("%s meet%s all but %s", countNodes(most), plural(most, "s", ""), w[i].Say())
	}
	return "no node meets all of " + w.Say()
}

// instead says that no node meets a condition, and which values of its attribute most nodes have.
func instead(nodes []*model.Node, c *Condition) string {
	text := "no node has " + c.Say()
	if c.Asks == nil {
		if strings.HasPrefix(c.Text, model.OnlyNodes) {
			return "none of its nodes is in the cluster: " + c.Names()
		}
		if strings.HasPrefix(c.Text, model.QueueNodes) {
			return "none of its queue's nodes is in the cluster: " + c.Names()
		}
		return "it excludes all nodes: " + c.Names()
	}
	count := map[string]int{}
	var facts jobspec.NodeFacts
	for _, n := range nodes {
		SetFacts(&facts, n)
		values := c.Asks.Has(&facts)
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			count[value]++
		}
	}
	values := slices.SortedFunc(maps.Keys(count),
		func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	if len(values) == 0 {
		return text
	}
	var there []string
	for _, value := range values[:min(len(values), 4)] {
		there = append(there, fmt.Sprintf("%s (%s)", value, countNodes(count[value])))
	}
	if len(values) > len(there) {
		there = append(there, fmt.Sprintf("%d more", len(values)-len(there)))
	}
	return text + "; there are " + strings.Join(there, ", ")
}
