package oci

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// rotaArrayVariables tell an array task its index and its parameters.
func (in taskInput) rotaArrayVariables() map[string]string {
	e := in.arrayTask()
	if e == nil {
		return nil
	}
	env := map[string]string{"ROTA_ARRAY_JOB_ID": itoa(int(in.arrayJob())), "ROTA_ARRAY_INDEX": itoa(*e.Index)}
	if e.Size > 0 {
		env["ROTA_ARRAY_COUNT"] = itoa(e.Size)
	}
	if gang := in.group.Gang; gang != nil && !*gang { // the array tasks are the workers of one group
		env["ROTA_WORKER"], env["ROTA_WORKERS"] = itoa(*e.Index), env["ROTA_ARRAY_COUNT"]
	}
	for name, value := range e.Params {
		env["ROTA_PARAM_"+jobspec.Variable(name)] = value
	}
	return env
}

// slurmArrayVariables are the same with Slurm's names.
func (in taskInput) slurmArrayVariables() map[string]string {
	e := in.arrayTask()
	if e == nil {
		return nil
	}
	env := map[string]string{"SLURM_ARRAY_JOB_ID": itoa(int(in.arrayJob())), "SLURM_ARRAY_TASK_ID": itoa(*e.Index)}
	if e.Size == 0 {
		return env
	}
	first, last, step := 0, e.Size-1, 1 // of a matrix or a file
	if a := in.Alloc.Spec.Array; a != nil && a.Indices != "" {
		if runs, err := jobspec.ParseIndices(a.Indices); err == nil && len(runs) > 0 {
			// of several runs the first, as in Slurm
			first, last, step = runs[0].First, runs[len(runs)-1].Last, runs[0].Step
		}
	}
	env["SLURM_ARRAY_TASK_COUNT"], env["SLURM_ARRAY_TASK_STEP"] = itoa(e.Size), itoa(step)
	env["SLURM_ARRAY_TASK_MIN"], env["SLURM_ARRAY_TASK_MAX"] = itoa(first), itoa(last)
	return env
}

// rotaGroupVariables say where the workers of every group of a gang are.
func (in taskInput) rotaGroupVariables() map[string]string {
	env := map[string]string{"ROTA_GROUP": in.group.Name}
	for _, h := range in.Alloc.Hosts {
		env["ROTA_HOSTS_"+jobspec.Variable(h.Group)] = strings.Join(endpoints(h), ",")
	}
	return env
}

// slurmGroupVariables are the same with Slurm's names for heterogeneous jobs.
func (in taskInput) slurmGroupVariables() map[string]string {
	if len(in.Alloc.Hosts) < 2 {
		return nil
	}
	env := map[string]string{"SLURM_HET_SIZE": itoa(len(in.Alloc.Hosts))}
	for i, h := range in.Alloc.Hosts {
		g, on := &in.Alloc.Spec.Groups[i], byNode(h.Nodes)
		task := mainTask(g)
		_, local := ranksOf(task, task.Resources.GPUs)
		nodes, count, all := hostlist.Compress(on.names), itoa(len(on.names)), itoa(local*len(h.Nodes))
		of := map[string]string{
			"JOB_ID": itoa(int(in.Alloc.Job)), "JOB_NAME": in.Alloc.Spec.Name, "JOB_ACCOUNT": in.Alloc.Account,
			"JOB_PARTITION": in.Alloc.Queue,
			"JOB_QOS":       string(in.Alloc.Class), "JOB_NODELIST": nodes, "NODELIST": nodes, "JOB_NUM_NODES": count,
			"NNODES": count,
			"NTASKS": all, "NPROCS": all, "TASKS_PER_NODE": on.each(local), "NTASKS_PER_NODE": itoa(local),
			"CPUS_PER_TASK":     itoa(max(task.Resources.Cores/max(local, 1), 1)),
			"JOB_CPUS_PER_NODE": on.coresOf(h, task.Resources.Cores),
			"MEM_PER_NODE":      itoa(int(task.Resources.Memory / jobspec.MiB)),
		}
		for name, value := range task.Env { // of a script, by which the group differs from others
			if rest, found := strings.CutPrefix(name, "SLURM_"); found {
				of[rest] = value
			}
		}
		if of["MEM_PER_CPU"] != "" { // srun takes one of them only
			delete(of, "MEM_PER_NODE")
		}
		for name, value := range of {
			env["SLURM_"+name+"_HET_GROUP_"+itoa(i)] = value
		}
	}
	return env
}

// mainTask returns the task of a group that starts steps, or its first main task.
func mainTask(g *jobspec.Group) *jobspec.Task {
	i := StepTask(g.Tasks)
	if i < 0 {
		i = slices.IndexFunc(g.Tasks, func(t jobspec.Task) bool { return t.Lifecycle == nil })
	}
	return &g.Tasks[max(i, 0)]
}

// coresOf writes how many cores the workers of a group have on each node: so many each, if nothing says
// that they differ.
func (on onNodes) coresOf(h api.GroupHosts, each int) string {
	counts := make([]int, len(on.names))
	for i, n := range h.Nodes {
		cores := each
		if i < len(h.Has) {
			cores = int(h.Has[i].Cores)
		}
		counts[slices.Index(on.names, n)] += cores
	}
	return hostlist.Counts(counts)
}

// nodesOf lists the nodes of some of the groups that start together, each once.
func (in Input) nodesOf(groups []int) []string {
	var all []string
	for _, n := range groups {
		if n >= 0 && n < len(in.Alloc.Hosts) {
			all = append(all, in.Alloc.Hosts[n].Nodes...)
		}
	}
	return byNode(all).names
}

// tensorflowVariables returns TF_CONFIG for a gang of several groups. In it each group is a "job",
// such as ps and worker. A group with steps is none, as they may be in several groups.
func (in taskInput) tensorflowVariables() map[string]string {
	if len(in.Alloc.Hosts) == 0 || in.kind == jobspec.LaunchSteps {
		return nil
	}
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	config := struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{map[string][]string{}, task{in.group.Name, in.Alloc.GroupWorker}}
	for _, h := range in.Alloc.Hosts {
		config.Cluster[h.Group] = endpoints(h)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil // strings and numbers only: it cannot fail
	}
	return map[string]string{"TF_CONFIG": string(text)}
}

// endpoints returns the workers' addresses with their ports.
func endpoints(h api.GroupHosts) []string {
	list := make([]string, 0, len(h.Addrs))
	for i, addr := range h.Addrs {
		if i < len(h.Ports) && h.Ports[i] > 0 {
			if strings.Contains(addr, ":") { // IPv6
				addr = "[" + addr + "]"
			}
			addr += ":" + itoa(h.Ports[i])
		}
		list = append(list, addr)
	}
	return list
}
