package schedtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// setWhere is setOption for where a job may run. Conditions are ATTRIBUTE:OPERATOR:VALUE without
// "node.", several of them with semicolons between: constraint=cores:>=:8;label.rack:in:a,b and
// prefer=50:label.rack:=:a. Other options are nodes, exclude-nodes, feature, model, gpu-memory and
// max-memory (GiB), exclusive=yes, licenses=NAME:COUNT. A gang of several groups is
// parts=ps:2x0,worker:4x2.
func setWhere(spec *jobspec.Job, group *jobspec.Group, r *jobspec.Resources, k, v string) error {
	if r.GPU == nil && (k == "model" || k == "gpu-memory" || k == "max-memory") {
		r.GPU = &jobspec.GPU{}
	}
	switch k {
	case "constraint":
		for text := range strings.SplitSeq(v, ";") {
			group.Constraints = append(group.Constraints, condition(text))
		}
	case "prefer":
		for text := range strings.SplitSeq(v, ";") {
			weight, rest, _ := strings.Cut(text, ":")
			n, err := strconv.Atoi(weight)
			if err != nil {
				return err
			}
			spec.Affinities = append(spec.Affinities, jobspec.Affinity{Constraint: condition(rest), Weight: n})
		}
	case "nodes":
		spec.Nodes = []string{v}
	case "exclude-nodes":
		spec.ExcludeNodes = []string{v}
	case "feature":
		spec.Features = append(spec.Features, v)
	case "model":
		r.GPU.Model = v
	case "gpu-memory":
		n, err := strconv.Atoi(v)
		r.GPU.MinMemory = jobspec.Bytes(n) * jobspec.GiB
		return err
	case "max-memory":
		n, err := strconv.Atoi(v)
		r.GPU.MaxMemory = jobspec.Bytes(n) * jobspec.GiB
		return err
	case "licenses": // NAME:COUNT,…
		spec.Licenses = map[string]int{}
		for text := range strings.SplitSeq(v, ",") {
			name, count, _ := strings.Cut(text, ":")
			n, err := strconv.Atoi(count)
			if err != nil {
				return err
			}
			spec.Licenses[name] = n
		}
	case "exclusive":
		group.Exclusive = v == "yes"
	case "parts":
		spec.GangScope = "job"
		for text := range strings.SplitSeq(v, ",") {
			g := jobspec.Group{}
			if _, err := fmt.Sscanf(strings.Replace(text, ":", " ", 1), "%s %dx%d", &g.Name, &g.Count,
				&g.MaxWorkersPerNode); err != nil {
				return err
			}
			spec.Groups = append(spec.Groups, g)
		}
	default:
		return fmt.Errorf("no property %q of a job", k)
	}
	return nil
}

// license configures how many licences there are.
func (w *World) license(options map[string]string) error {
	c := *w.State.View().Config()
	c.Licenses = map[string]int{}
	for name, count := range options {
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		c.Licenses[name] = n
	}
	_, err := w.Apply(fsm.SetConfig{Config: c})
	return err
}

func condition(text string) jobspec.Constraint {
	part := strings.SplitN(text, ":", 3)
	c := jobspec.Constraint{Attribute: "node." + part[0]}
	if len(part) > 1 {
		c.Operator = part[1]
	}
	switch {
	case len(part) < 3:
	case c.Operator == "in" || c.Operator == "not_in":
		c.Values = strings.Split(part[2], ",")
	default:
		c.Value = part[2]
	}
	return c
}

// spread makes the groups of parts=NAME:COUNTxGPUS like the job's only group, but for how many
// workers and GPUs each has.
func spread(spec *jobspec.Job, like jobspec.Group) {
	for i := range spec.Groups {
		g := like
		g.Name, g.Count = spec.Groups[i].Name, spec.Groups[i].Count
		t := like.Tasks[0]
		t.Resources.GPUs = spec.Groups[i].MaxWorkersPerNode
		g.Tasks = []jobspec.Task{t}
		spec.Groups[i] = g
	}
}

// Describe gives a node a model, labels=KEY:VALUE,… and the memory of its GPUs, and reports whether
// the property is one of these.
func Describe(n *model.Node, k, v string) bool {
	switch k {
	case "model":
		for i := range n.GPUs {
			n.GPUs[i].Model = v
		}
	case "gpu-memory":
		size, _ := strconv.Atoi(v)
		for i := range n.GPUs {
			n.GPUs[i].Memory = jobspec.Bytes(size) * jobspec.GiB
		}
	case "labels":
		n.Labels = map[string]string{}
		for pair := range strings.SplitSeq(v, ",") {
			key, value, _ := strings.Cut(pair, ":")
			n.Labels[key] = value
		}
	default:
		return false
	}
	return true
}
