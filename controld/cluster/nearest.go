package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Nearest says whether the nodes that have registered could hold a gang if they were empty, all up and nothing broken. If not, the
// reason has the node that comes nearest and how many workers would fit, or the condition that no node meets and what there is instead.
// While no node has registered, everything may fit. Each part of a gang is looked at by itself.
func (v *View) Nearest(s Shape) (bool, Reason) {
	if len(v.nodes) == 0 {
		return true, Reason{}
	}
	for part := range s.Each {
		fit, nearest := v.couldHold(part, nil)
		if fit >= part.Workers {
			continue
		}
		why := Reason{Code: ReasonBadConstraint, Need: part.Request.Active, Want: part.Workers, Fit: fit}
		if nearest != nil {
			why.Node, why.Have = nearest.Name, capacity(nearest)
		} else {
			why.Need, why.Text = Vector{}, v.Unmet(part.Where)
		}
		return false, why
	}
	return v.together(s)
}

// together says whether all that the parts of a gang need is there at all. Each part by itself has been found to fit.
func (v *View) together(s Shape) (bool, Reason) {
	if s.Parts == "" {
		return true, Reason{}
	}
	var need, have Vector
	for part := range s.Each {
		need = need.plus(part.Request.Active.times(int64(part.Workers)))
	}
	for _, n := range v.nodes {
		have = have.plus(capacity(n))
	}
	if need.within(have) {
		return true, Reason{}
	}
	return false, Reason{Code: ReasonBadConstraint, Need: need, Have: have, Want: s.Total(), Text: "its groups need more together than there is"}
}

// couldHold counts the workers of a part that empty nodes could hold, those in exclude and those that do not meet its constraints left out,
// up to what is asked for, and returns the node that comes nearest to holding one.
func (v *View) couldHold(s Shape, exclude []string) (fit int, nearest *Node) {
	eligible := v.Eligible(s.Where)
	for i, n := range v.nodes {
		if eligible != nil && eligible[i/64]&(1<<(i%64)) == 0 || slices.Contains(exclude, n.Name) {
			continue
		}
		if nearest == nil || nearer(s.Request.Active, capacity(n), capacity(nearest)) {
			nearest = n
		}
		if fit += workersIn(s, capacity(n)); fit >= s.Workers {
			return s.Workers, nearest
		}
	}
	return fit, nearest
}

// couldHoldAll reports whether empty nodes could hold each part of a gang, those in exclude left out.
func (v *View) couldHoldAll(s Shape, exclude []string) bool {
	for part := range s.Each {
		if fit, _ := v.couldHold(part, exclude); fit < part.Workers {
			return false
		}
	}
	return true
}

func workersIn(s Shape, room Vector) int {
	n := int64(s.PerNode)
	need := s.Request.Active
	for _, d := range [][2]int64{
		{room.Cores, need.Cores}, {int64(room.Memory), int64(max(need.Memory, s.Request.Resident.Memory))},
	} {
		if d[1] > 0 {
			n = min(n, d[0]/d[1])
		}
	}
	if need.GPUs > 0 {
		n = min(n, slots(room.GPUs/WholeGPU, need.GPUs))
	}
	return int(n)
}

// nearer reports whether a comes nearer to a need than b: by how many resources suffice, then by GPUs, memory and cores.
func nearer(need, a, b Vector) bool {
	enough := func(v Vector) (n int) {
		for _, ok := range []bool{v.Cores >= need.Cores, v.Memory >= need.Memory, v.GPUs >= need.GPUs} {
			if ok {
				n++
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(enough(a), enough(b)), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.Cores, b.Cores)) > 0
}

// Unmet says which condition of a Where keeps all nodes away, and what they have instead: "no node has node.gpu.model glob "H200*"; there are
// H100 (8 nodes)". "": some node meets it.
func (v *View) Unmet(text string) string {
	w, err := parseWhere(text)
	if err != nil || len(w) == 0 || len(v.nodes) == 0 {
		return ""
	}
	meets, allBut := make([]int, len(w)), make([]int, len(w))
	var facts jobspec.NodeFacts
	for _, n := range v.nodes {
		setFacts(&facts, n)
		misses, last := 0, 0
		for i := range w {
			if w[i].holds(&facts) {
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
		return v.instead(&w[i])
	}
	if most := slices.Max(allBut); most > 0 {
		i := slices.Index(allBut, most)
		return fmt.Sprintf("%s meet%s all but %s", countNodes(most), plural(most, "s", ""), w[i].say())
	}
	return "no node meets all of " + w.say()
}

// instead says that no node meets a condition, and which values of its attribute most nodes have.
func (v *View) instead(c *condition) string {
	text := "no node has " + c.say()
	if c.asks == nil {
		if strings.HasPrefix(c.text, onlyNodes) {
			return "none of its nodes is in the cluster: " + c.names()
		}
		return "it excludes all nodes: " + c.names()
	}
	count := map[string]int{}
	var facts jobspec.NodeFacts
	for _, n := range v.nodes {
		setFacts(&facts, n)
		values := c.asks.Has(&facts)
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			count[value]++
		}
	}
	values := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
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

func countNodes(n int) string { return fmt.Sprintf("%d node%s", n, plural(n, "", "s")) }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// names returns the list of nodes that a condition is.
func (c *condition) names() string {
	_, quoted, _ := strings.Cut(c.text, " ")
	list, _ := strconv.Unquote(quoted)
	return list
}

// say writes a condition as one would speak of it.
func (c *condition) say() string {
	if c.asks == nil {
		list, _, _ := strings.Cut(c.text, " ")
		return list + " " + c.names()
	}
	constraint, err := jobspec.ParseConstraint(c.text)
	if err != nil {
		return c.text
	}
	name := strings.TrimPrefix(constraint.Attribute, "node.")
	switch constraint.Operator {
	case "=", "glob":
		return name + " " + constraint.Value
	case "is_set":
		return name
	case "in", "not_in":
		return name + " " + constraint.Operator + " " + strings.Join(constraint.Values, ", ")
	}
	return name + " " + constraint.Operator + " " + constraint.Value
}

func (w where) say() string {
	var all []string
	for i := range w {
		all = append(all, w[i].say())
	}
	return strings.Join(all, " and ")
}
