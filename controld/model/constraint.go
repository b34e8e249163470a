package model

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// WhereOf writes down where the workers of a group may run: one condition a line, in order and none
// twice, "" for anywhere. Equal demands have equal texts, which is what makes jobs alike for
// scheduling.
func WhereOf(spec *jobspec.Job, g *jobspec.Group) string {
	var lines []string
	for _, list := range [][]jobspec.Constraint{spec.Constraints, g.Constraints, gpuConstraints(g)} {
		for _, c := range list {
			lines = append(lines, c.String())
		}
	}
	features := spec.Features
	if spec.Checkpoint != nil && spec.Checkpoint.Criu {
		features = append(slices.Clone(features), jobspec.CriuLabel)
	}
	for _, key := range features {
		lines = append(lines, jobspec.Constraint{Attribute: "node.label." + key, Operator: "is_set"}.String())
	}
	if len(spec.Nodes) > 0 {
		lines = append(lines, OnlyNodes+strconv.Quote(strings.Join(spec.Nodes, ",")))
	}
	if len(spec.ExcludeNodes) > 0 {
		lines = append(lines, AvoidNodes+strconv.Quote(strings.Join(spec.ExcludeNodes, ",")))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// gpuConstraints are what the tasks of a group say of their GPUs. Every GPU of a node has to do,
// since a worker may be given any.
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
		if least := max(r.GPU.MinMemory, r.GPU.LeastMemory()); least > 0 {
			all = append(all, jobspec.Constraint{Attribute: "node.gpu.memory", Operator: ">=", Value: least.String()})
		}
	}
	return all
}

// The lines of a Where that are about many names at once; all others are constraints.
const (
	OnlyNodes  = "nodes "
	AvoidNodes = "exclude_nodes "
	QueueNodes = "nodes_of_queue " // of its queue, not of the job
)
