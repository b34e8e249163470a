package doctor

import (
	"context"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// generation checks, after a recovery or a restore, whether the nodes have accepted the controllers
// that answer.
func (in *inspection) generation(context.Context) []finding {
	const name = "generation of the cluster"
	k := &in.cluster
	var found []finding
	if n := len(k.refusedBy); n > 0 {
		var names []string
		for _, r := range k.refusedBy {
			names = append(names, r.Node)
		}
		found = one(bad, name, "decide which cluster is to continue. To keep the other one, stop these controllers, move "+
			"their data directories away and join again. To keep this one, stop the other cluster and run rota-controld "+
			"recover here again",
			"%s (%s) follow generation %s of the cluster, and refuse these controllers", show.Count(n, "node", "nodes"),
			hostlist.Compress(names), k.refusedBy[0].Generation)
	}
	g := k.generation
	switch {
	case g == nil:
	case !g.Settled:
		found = append(found, one(bad, name, "start the missing nodes; a node follows the new generation once its old "+
			"leader has been silent for 30 s", "no job starts: only %d of the %d nodes needed have accepted the recovered "+
			"cluster (generation %s); not yet: %s", g.Accepted, g.Need, g.Generation, hostlist.Compress(g.Missing))...)
	case len(g.Missing) > 0:
		found = append(found, one(warn, name, "start them; until then the controllers may not know what ran there",
			"these nodes do not follow generation %s yet: %s", g.Generation, hostlist.Compress(g.Missing))...)
	case len(found) == 0:
		found = fine(name, "%s, by %s on %s", g.Generation, g.Means, g.Controller)
	}
	return found
}

// keptFolders finds nodes with checkpoint folders that the controllers do not know.
func (in *inspection) keptFolders(context.Context) []finding {
	var found []finding
	for i := range in.cluster.nodes {
		n := &in.cluster.nodes[i]
		if at := strings.Index(n.Reason, "keeps "); at >= 0 && strings.Contains(n.Reason, "checkpoint folders") {
			found = append(found, one(warn, "kept checkpoints", "list them with rota node kept "+n.Name+", copy what is "+
				"still needed, then rota node discard", "node %s %s", n.Name, n.Reason[at:])...)
		}
	}
	return found
}
