package views

import (
	"slices"

	"github.com/rota-hpc/rota/controld/api"
)

// runsOn reports whether a job has one of the nodes; with no nodes given, it is true.
func runsOn(j *api.Job, nodes []string) bool {
	return len(nodes) == 0 || slices.ContainsFunc(j.Nodes, func(n string) bool { return slices.Contains(nodes, n) })
}
