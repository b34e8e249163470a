package oci

import (
	"encoding/json"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// rotaArrayVariables tell an array task its index and its parameters.
func (in taskInput) rotaArrayVariables() map[string]string {
	e := in.Array
	if e == nil {
		return nil
	}
	env := map[string]string{"ROTA_ARRAY_JOB_ID": itoa(int(e.ArrayJob)), "ROTA_ARRAY_INDEX": itoa(e.Index)}
	if e.Count > 0 {
		env["ROTA_ARRAY_COUNT"] = itoa(e.Count)
	}
	if gang := in.group.Gang; gang != nil && !*gang { // the array tasks are the workers of one group
		env["ROTA_WORKER"], env["ROTA_WORKERS"] = itoa(e.Index), env["ROTA_ARRAY_COUNT"]
	}
	for name, value := range e.Params {
		env["ROTA_PARAM_"+jobspec.Variable(name)] = value
	}
	return env
}

// slurmArrayVariables are the same with Slurm's names.
func (in taskInput) slurmArrayVariables() map[string]string {
	e := in.Array
	if e == nil {
		return nil
	}
	env := map[string]string{"SLURM_ARRAY_JOB_ID": itoa(int(e.ArrayJob)), "SLURM_ARRAY_TASK_ID": itoa(e.Index)}
	if e.Count == 0 {
		return env
	}
	first, last, step := 0, e.Count-1, 1 // of a matrix or a file
	if a := in.Spec.Array; a != nil && a.Indices != "" {
		if runs, err := jobspec.ParseIndices(a.Indices); err == nil && len(runs) > 0 {
			// of several runs the first, as in Slurm
			first, last, step = runs[0].First, runs[len(runs)-1].Last, runs[0].Step
		}
	}
	env["SLURM_ARRAY_TASK_COUNT"], env["SLURM_ARRAY_TASK_STEP"] = itoa(e.Count), itoa(step)
	env["SLURM_ARRAY_TASK_MIN"], env["SLURM_ARRAY_TASK_MAX"] = itoa(first), itoa(last)
	return env
}

// rotaGroupVariables say where the workers of every group of a gang are.
func (in taskInput) rotaGroupVariables() map[string]string {
	env := map[string]string{"ROTA_GROUP": in.group.Name}
	for _, h := range in.Hosts {
		env["ROTA_HOSTS_"+jobspec.Variable(h.Group)] = strings.Join(h.endpoints(), ",")
	}
	return env
}

// slurmGroupVariables are the same with Slurm's names for heterogeneous jobs.
func (in taskInput) slurmGroupVariables() map[string]string {
	if len(in.Hosts) < 2 {
		return nil
	}
	env := map[string]string{"SLURM_HET_SIZE": itoa(len(in.Hosts))}
	for i, h := range in.Hosts {
		n := itoa(i)
		env["SLURM_JOB_ID_HET_GROUP_"+n] = itoa(int(in.Job))
		env["SLURM_JOB_NODELIST_HET_GROUP_"+n] = distinctNodes(h.Nodes)
		env["SLURM_JOB_NUM_NODES_HET_GROUP_"+n] = itoa(len(byNode(h.Nodes).names))
	}
	return env
}

// tensorflowVariables returns TF_CONFIG for a gang of several groups. In it each group is a "job",
// such as ps and worker.
func (in taskInput) tensorflowVariables() map[string]string {
	if len(in.Hosts) == 0 {
		return nil
	}
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	config := struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{map[string][]string{}, task{in.group.Name, in.GroupWorker}}
	for _, h := range in.Hosts {
		config.Cluster[h.Group] = h.endpoints()
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil // strings and numbers only: it cannot fail
	}
	return map[string]string{"TF_CONFIG": string(text)}
}

// endpoints returns the workers' addresses with their ports.
func (h Hosts) endpoints() []string {
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
