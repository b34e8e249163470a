package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// KindRegisterNode is the kind of [RegisterNode].
var KindRegisterNode = newKind("register-node/1")

// RegisterNode adds a node or renews its inventory. A boot id other than the last ends, as node-lost, every attempt that the
// old boot ran.
type RegisterNode struct {
	Node model.Node `json:"node"` // State, Reason and Since are ignored
}

// Kind implements Command.
func (RegisterNode) Kind() Kind { return KindRegisterNode }

// apply adds the node or renews its inventory. After a boot nothing runs there any more, so its workers are lost at once.
func (c RegisterNode) apply(s *State) (any, error) {
	n := c.Node
	if err := checkInventory(&n); err != nil {
		return nil, err
	}
	old, i := s.v.Node(n.Name)
	if old == nil {
		return nil, s.addNode(&n)
	}
	if old.BootID != n.BootID {
		s.loseWorkers(i, "the node was booted anew")
	} else if err := s.keepsHeld(i, &n); err != nil {
		return nil, err
	}
	n.State, n.Reason, n.Since, n.Drained = old.State, old.Reason, old.Since, old.Drained
	if n.State == model.NodeDown {
		s.bringUp(&n)
	}
	s.replaceNode(i, &n)
	s.touchNode(i)
	return nil, nil
}

// bringUp brings a node back from being down.
func (s *State) bringUp(n *model.Node) {
	n.State, n.Reason, n.Since = model.NodeUp, "", s.now()
	event := model.EventNodeUp
	if n.Drained {
		n.State, event = model.NodeDrained, model.EventNodeDrain
	}
	s.emit(model.Event{Type: event, Node: n.Name})
}

// checkInventory refuses what the grid cannot hold.
func checkInventory(n *model.Node) error {
	bad := func(text string) error { return &model.InventoryError{Node: n.Name, Text: text} }
	switch {
	case n.Name == "" || len(n.Name) > 255 || strings.ContainsAny(n.Name, " \t\n/"):
		return bad("the name is empty, longer than 255 bytes, or has spaces or slashes")
	case n.BootID == "":
		return bad("the boot id is missing")
	case n.Cores < 1 || n.Cores > jobspec.MaxNodeCores || n.Memory < 1 || n.Memory > jobspec.MaxSize:
		return bad("cores or memory are out of range")
	case len(n.GPUs) > model.MaxGPUsPerNode:
		return bad(fmt.Sprintf("%d GPUs, at most %d", len(n.GPUs), model.MaxGPUsPerNode))
	case n.PortMin < 0 || n.PortMax > 65535 || n.PortMin > n.PortMax:
		return bad(fmt.Sprintf("port range %d to %d", n.PortMin, n.PortMax))
	}
	return nil
}

func (s *State) addNode(n *model.Node) error {
	if len(s.v.nodes) >= model.MaxNodes {
		return &model.LimitError{What: "the number of nodes", Asked: int64(len(s.v.nodes) + 1), Max: model.MaxNodes}
	}
	n.State, n.Reason, n.Since, n.Drained = model.NodeUp, "", s.now(), false
	at, _ := s.v.position(n.Name)
	for i := int64(len(s.v.nodes)); i > int64(at); i-- {
		h, _ := s.v.holdings.Get(i - 1)
		s.v.holdings.Set(i, h)
	}
	s.v.holdings.Set(int64(at), &holding{modified: s.v.index, freed: s.v.at})
	s.v.nodes = slices.Insert(slices.Clone(s.v.nodes), at, n)
	s.ownGrid().Insert(at, s.v.nodes)
	s.updateNodeSets(at, nil)
	s.restock(nil, n)
	s.touched.node(n.Name)
	if at < len(s.v.nodes)-1 && !s.v.runs.Empty() {
		s.rebuildRuns()
	}
	s.emit(model.Event{Type: model.EventNodeUp, Node: n.Name})
	return nil
}

// replaceNode stores a node that was there before.
func (s *State) replaceNode(i int, n *model.Node) {
	old := s.v.nodes[i]
	s.v.nodes = slices.Clone(s.v.nodes)
	s.v.nodes[i] = n
	s.updateNodeSets(i, old)
	s.restock(old, n)
	s.touched.node(n.Name)
	if len(s.v.models) > 0 && !sameModels(old, n) {
		s.rebuildRuns()
	}
	s.ownGrid().Replace(i, s.v.nodes, s.heldOn(i))
}

// keepsHeld refuses an inventory of the same boot that lacks what workers hold: GPUs are known by their index, and room that is in use
// cannot vanish. A broken GPU stays in its place, marked unhealthy.
func (s *State) keepsHeld(i int, n *model.Node) error {
	old := s.v.nodes[i]
	var used model.Vector
	for _, held := range s.heldOn(i) {
		used = used.Plus(held.Request.Resident)
		used.Cores += held.Request.Active.Cores
		for _, g := range held.GPUs {
			if g >= len(n.GPUs) || n.GPUs[g].UUID != old.GPUs[g].UUID {
				return &model.InventoryError{Node: n.Name, Text: fmt.Sprintf("GPU %d (%s) is in use and missing at its index", g, old.GPUs[g].UUID)}
			}
		}
	}
	if !used.Within(grid.Capacity(n)) {
		return &model.InventoryError{Node: n.Name, Text: "cores or memory are less than what jobs hold there"}
	}
	return nil
}
