package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// nodeKind groups all nodes with the same state and hardware, for nodes --summary.
type nodeKind struct {
	State     string   `json:"state"`
	Cores     int64    `json:"cores"` // per node
	GPUs      int      `json:"gpus"`  // per node
	Model     string   `json:"model"`
	CoresUsed int64    `json:"cores_used"` // sum over all nodes of the group
	GPUsUsed  int      `json:"gpus_used"`
	Nodes     []string `json:"nodes"`
}

var kindCells = []listing.Cell[nodeKind]{
	listing.TextCell("state", "STATE", 0, "", func(k *nodeKind) string { return k.State }).Painted(table.StateOf),
	listing.NumberCell("count", "NODES", "", func(k *nodeKind) int { return len(k.Nodes) }),
	listing.NumberCell("cores", "CPUS", "", func(k *nodeKind) int64 { return k.Cores }),
	listing.NumberCell("gpus", "GPUS", "", func(k *nodeKind) int { return k.GPUs }),
	listing.TextCell("model", "MODEL", 8, "", func(k *nodeKind) string { return k.Model }),
	listing.TextCell("used", "GPUS(A/T)", 0, "", func(k *nodeKind) string {
		return fmt.Sprintf("%d/%d", k.GPUsUsed, k.GPUs*len(k.Nodes))
	}).AtRight(),
	listing.TextCell("nodelist", "NODELIST", 8, "", func(k *nodeKind) string { return show.Hosts(k.Nodes) }),
}

// nodeSummary groups equal nodes, sorted by state, number of GPUs and model.
func nodeSummary(nodes *api.List[api.Node]) *api.List[nodeKind] {
	kinds := &api.List[nodeKind]{APIVersion: nodes.APIVersion, Kind: "NodeSummary", Index: nodes.Index,
		Items: []nodeKind{}}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		at := slices.IndexFunc(kinds.Items, func(k nodeKind) bool {
			return k.State == n.State && k.Cores == n.Cores && k.GPUs == len(n.GPUs) && k.Model == models(n.GPUs)
		})
		if at < 0 {
			at = len(kinds.Items)
			kinds.Items = append(kinds.Items, nodeKind{State: n.State, Cores: n.Cores, GPUs: len(n.GPUs), Model: models(n.GPUs)})
		}
		k := &kinds.Items[at]
		k.Nodes = append(k.Nodes, n.Name)
		k.CoresUsed += n.CoresUsed
		k.GPUsUsed += n.GPUsUsed
	}
	slices.SortStableFunc(kinds.Items, func(a, b nodeKind) int {
		return strings.Compare(fmt.Sprintf("%s %4d %s", a.State, a.GPUs, a.Model),
			fmt.Sprintf("%s %4d %s", b.State, b.GPUs, b.Model))
	})
	return kinds
}
