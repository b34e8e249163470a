package sched

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// setWhere is setOption for where a job may run. Conditions are ATTRIBUTE:OPERATOR:VALUE without the node. before it, several with a
// semicolon between: constraint=cores:>=:8;label.rack:in:a,b, prefer=50:label.rack:=:a, nodes, exclude-nodes, feature, model, gpu-memory
// (GiB), exclusive=yes, and parts=ps:2x0,worker:4x2 for a gang of several groups.
func setWhere(spec *jobspec.Job, group *jobspec.Group, r *jobspec.Resources, k, v string) error {
	if r.GPU == nil && (k == "model" || k == "gpu-memory") {
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
	case "exclusive":
		group.Exclusive = v == "yes"
	case "parts":
		spec.GangScope = "job"
		for text := range strings.SplitSeq(v, ",") {
			g := jobspec.Group{}
			if _, err := fmt.Sscanf(strings.Replace(text, ":", " ", 1), "%s %dx%d", &g.Name, &g.Count, &g.MaxWorkersPerNode); err != nil {
				return err
			}
			spec.Groups = append(spec.Groups, g)
		}
	default:
		return fmt.Errorf("no property %q of a job", k)
	}
	return nil
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

// spread makes the groups of parts=NAME:COUNTxGPUS like the job's only group, but for how many workers and GPUs each has.
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

// describe gives a node a model, labels=KEY:VALUE,… and the memory of its GPUs, and reports whether the property is one of these.
func describe(n *cluster.Node, k, v string) bool {
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

// BenchmarkFillConstrained is one cycle over 10,000 pending GPU jobs of 200 shapes on 1,000 nodes of 8 GPUs in ten racks and of two models: three
// shapes of four say where they may run, some prefer a rack, some want whole nodes, some are gangs of two groups.
func BenchmarkFillConstrained(b *testing.B) {
	c := &crowd{state: cluster.New(cluster.DefaultConfig()), now: 1000}
	for i := range 1000 {
		n := makeNode(fmt.Sprintf("n%05d", i), 8, 64, 512, 1000)
		describe(&n, "model", [...]string{"A100", "H100"}[i%2])
		describe(&n, "labels", fmt.Sprintf("rack:%d", i/100))
		c.apply(b, cluster.RegisterNode{Node: n})
	}
	var batch []*jobspec.Job
	for i := range 10_000 {
		s := i % 200
		options := map[string]string{"gpus": fmt.Sprint(1 + s%8), "cores": fmt.Sprint(1 + s/8%5), "memory": fmt.Sprint(1 + s/40), "account": fmt.Sprint("a", i/200%8)}
		switch s % 8 {
		case 1, 3:
			options["model"] = "h100"
		case 2, 5:
			options["constraint"] = fmt.Sprintf("label.rack:in:%d,%d", s%10, s/10%10)
		case 4:
			options["prefer"] = fmt.Sprintf("50:label.rack:=:%d", s%10)
		case 6:
			options["exclusive"] = "yes"
		case 7:
			options["parts"] = fmt.Sprintf("ps:1x0,worker:2x%d", 1+s%8)
		}
		spec, err := newWorld().makeJob("j", options)
		if err != nil {
			b.Fatal(err)
		}
		if batch = append(batch, spec); len(batch) == 1000 {
			c.apply(b, cluster.SubmitJobs{Owner: ada, Jobs: batch})
			batch = nil
		}
	}
	cycles := func(b *testing.B) {
		v, starts := c.state.View(), 0
		for b.Loop() {
			plan, _ := Cycle(v, c.now, v.Config().Policy)
			starts = len(plan.Actions)
		}
		b.ReportMetric(float64(starts), "starts")
	}
	b.Run("empty", cycles)
	for c.cycle(b) > 0 {
	}
	b.Run("full", cycles)
}
