package main

import (
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// hosts writes a list of node names in brackets, each once.
func hosts(names []string) string { return hostlist.Compress(distinct(names)) }

// nodeRefs reads arguments as nodes: names, and lists of them in brackets such as gpu[01-04].
func nodeRefs(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		some, err := hostlist.Expand(arg)
		if err != nil {
			return nil, &usageError{text: err.Error(), hint: "write names with commas, or ranges in brackets: gpu01 or gpu[01-04,07]"}
		}
		names = append(names, some...)
	}
	return distinct(names), nil
}

// runsOn reports whether a job has one of the nodes; every job has when none are given.
func runsOn(j *api.Job, nodes []string) bool {
	return len(nodes) == 0 || slices.ContainsFunc(j.Nodes, func(n string) bool { return slices.Contains(nodes, n) })
}
