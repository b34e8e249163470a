package topology

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// workersIn returns how many workers of a shape fit into the free capacity of one node.
func workersIn(s model.Shape, room model.Vector) int {
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
		n = min(n, grid.Slots(room.GPUs/model.WholeGPU, need.GPUs))
	}
	return int(n)
}

// nearer reports whether a comes nearer to a need than b: by how many resources suffice, then by
// GPUs, memory and cores.
func nearer(need, a, b model.Vector) bool {
	enough := func(v model.Vector) (n int) {
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

// countNodes returns a number of nodes in words.
func countNodes(n int) string { return fmt.Sprintf("%d node%s", n, plural(n, "", "s")) }

// plural returns one for 1 and many for any other number.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Names returns the list of nodes that a condition is.
func (c *Condition) Names() string {
	_, quoted, _ := strings.Cut(c.Text, " ")
	list, _ := strconv.Unquote(quoted)
	return list
}

// Say writes a condition as one would speak of it.
func (c *Condition) Say() string {
	if c.Asks == nil {
		list, _, _ := strings.Cut(c.Text, " ")
		if list+" " == model.QueueNodes {
			list = "nodes of its queue:"
		}
		return list + " " + c.Names()
	}
	constraint, err := jobspec.ParseConstraint(c.Text)
	if err != nil {
		return c.Text
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

// Say returns the conditions in the words of a message.
func (w where) Say() string {
	var all []string
	for i := range w {
		all = append(all, w[i].Say())
	}
	return strings.Join(all, " and ")
}
