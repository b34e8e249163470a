package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// MaxConditions bounds what one group may say of its nodes.
const MaxConditions = 320

// The two lines of a Where that are about many names at once; all others are constraints.
const (
	onlyNodes  = "nodes "
	avoidNodes = "exclude_nodes "
)

// whereOf writes down where the workers of a group may run: one condition a line, in order and none twice, "" for anywhere. Equal demands
// have equal texts, which is what makes jobs alike for scheduling.
func whereOf(spec *jobspec.Job, g *jobspec.Group) string {
	var lines []string
	for _, list := range [][]jobspec.Constraint{spec.Constraints, g.Constraints, gpuConstraints(g)} {
		for _, c := range list {
			lines = append(lines, c.String())
		}
	}
	for _, key := range spec.Features {
		lines = append(lines, jobspec.Constraint{Attribute: "node.label." + key, Operator: "is_set"}.String())
	}
	if len(spec.Nodes) > 0 {
		lines = append(lines, onlyNodes+strconv.Quote(strings.Join(spec.Nodes, ",")))
	}
	if len(spec.ExcludeNodes) > 0 {
		lines = append(lines, avoidNodes+strconv.Quote(strings.Join(spec.ExcludeNodes, ",")))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// gpuConstraints are what the tasks of a group say of their GPUs. Every GPU of a node has to do, since a worker may be given any.
func gpuConstraints(g *jobspec.Group) []jobspec.Constraint {
	var all []jobspec.Constraint
	for i := range g.Tasks {
		r := &g.Tasks[i].Resources
		if r.GPU == nil || r.GPUs == 0 {
			continue
		}
		if r.GPU.Model != "" {
			all = append(all, jobspec.Constraint{Attribute: "node.gpu.model", Operator: "glob", Value: r.GPU.Model})
		}
		if r.GPU.MinMemory > 0 {
			all = append(all, jobspec.Constraint{Attribute: "node.gpu.memory", Operator: ">=", Value: r.GPU.MinMemory.String()})
		}
	}
	return all
}

// checkWhere refuses conditions that cannot be asked of any node.
func checkWhere(spec *jobspec.Job, g *jobspec.Group) error {
	if n := len(spec.Constraints) + len(g.Constraints) + len(spec.Affinities) + len(g.Affinities) + len(spec.Features); n > MaxConditions {
		return limit("the number of constraints, affinities and features", int64(n), MaxConditions, "")
	}
	for i := range g.Tasks {
		if gpu := g.Tasks[i].Resources.GPU; gpu != nil && gpu.Vendor != "" && !strings.EqualFold(gpu.Vendor, "nvidia") {
			return &SpecError{fmt.Sprintf("gpu.vendor is nvidia, not %q", gpu.Vendor)}
		}
	}
	if _, err := parseWhere(whereOf(spec, g)); err != nil {
		return &SpecError{err.Error()}
	}
	if _, err := parsePrefer(preferOf(spec, g)); err != nil {
		return &SpecError{err.Error()}
	}
	return nil
}

// where is a text of whereOf that can be asked of nodes. It never changes.
type where []condition

// condition is one line of it.
type condition struct {
	text  string
	asks  *jobspec.Condition // nil for a list of nodes
	holds func(*jobspec.NodeFacts) bool
}

func parseWhere(text string) (where, error) {
	var w where
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		c, err := parseCondition(line)
		if err != nil {
			return nil, err
		}
		w = append(w, c)
	}
	return w, nil
}

func parseCondition(line string) (condition, error) {
	for _, list := range []struct {
		prefix string
		want   bool
	}{{onlyNodes, true}, {avoidNodes, false}} {
		if quoted, ok := strings.CutPrefix(line, list.prefix); ok {
			return parseNodes(line, quoted, list.want)
		}
	}
	constraint, err := jobspec.ParseConstraint(line)
	if err != nil {
		return condition{}, err
	}
	asks, err := constraint.Compile()
	if err != nil {
		return condition{}, fmt.Errorf("constraint %s: %w", line, err)
	}
	return condition{text: line, asks: asks, holds: asks.Holds}, nil
}

func parseNodes(line, quoted string, want bool) (condition, error) {
	list, err := strconv.Unquote(quoted)
	if err != nil {
		return condition{}, fmt.Errorf("%s: %w", line, err)
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return condition{}, err
	}
	among := make(map[string]bool, len(names))
	for _, name := range names {
		among[name] = true
	}
	return condition{text: line, holds: func(n *jobspec.NodeFacts) bool { return among[n.Name] == want }}, nil
}

func (w where) holds(n *jobspec.NodeFacts) bool {
	for i := range w {
		if !w[i].holds(n) {
			return false
		}
	}
	return true
}

// setFacts makes f what conditions may ask of a node. It reuses what f has grown to. Of GPUs the healthy ones count, unless there are none:
// one that has failed may not even tell its name.
func setFacts(f *jobspec.NodeFacts, n *Node) {
	*f = jobspec.NodeFacts{
		Name: n.Name, BootID: n.BootID, Cores: n.Cores, Memory: n.Memory, GPUs: int64(len(n.GPUs)), Labels: n.Labels,
		Models: f.Models[:0], GPUMemory: f.GPUMemory[:0],
	}
	usable := healthy(n)
	for i := range n.GPUs {
		if usable == 0 || usable&(1<<i) != 0 {
			f.Models = append(f.Models, n.GPUs[i].Model)
			f.GPUMemory = append(f.GPUMemory, n.GPUs[i].Memory)
		}
	}
}
