package choose

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci"
)

// Allocations returns, for each group that starts together with a first worker, the places and the
// resources that steps may use. A group that runs no steps has no places.
func Allocations(a *api.Alloc) []Allocation {
	if len(a.Hosts) == 0 {
		return []Allocation{allocation(&a.Spec.Groups[a.Group], a.Nodes, nil, a.Request.Active)}
	}
	var list []Allocation
	first := 0
	for i, h := range a.Hosts {
		var one Allocation
		if g := &a.Spec.Groups[i]; g.RunsSteps() {
			one = allocation(g, h.Nodes, h.Has, model.GroupRequest(g).Active)
		}
		one.First, first = first, first+len(h.Nodes)
		list = append(list, one)
	}
	return list
}

// allocation returns the places of a group on its nodes. The worker at index i has has[i], or the
// usual amount if has is shorter.
func allocation(g *jobspec.Group, nodes []string, has []model.Vector, usual model.Vector) Allocation {
	task := &g.Tasks[max(oci.StepTask(g.Tasks), 0)]
	job := Allocation{TasksPerNode: 1}
	for i, n := range nodes {
		v := usual
		if i < len(has) {
			v = has[i]
		}
		job.Places = append(job.Places, NodePart{Node: n, Cores: int(max(v.Cores, 1)), Memory: v.Memory, GPUs: wholeGPUs(v)})
	}
	if l := task.Launch; l != nil && l.NprocGPU {
		job.TasksPerNode = max(wholeGPUs(usual), 1)
	} else if l != nil {
		job.TasksPerNode = max(l.Nproc, 1)
	}
	if len(job.Places) > 0 {
		job.CoresPerTask = max(job.Places[0].Cores/job.TasksPerNode, 1)
	}
	return job
}

func wholeGPUs(v model.Vector) int {
	return int((v.GPUs + jobspec.WholeGPU - 1) / jobspec.WholeGPU)
}
