package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// registerNode adds a node or renews its inventory. After a boot nothing runs there any more, so its workers are lost at once.
func (s *State) registerNode(c RegisterNode) error {
	n := c.Node
	if err := checkInventory(&n); err != nil {
		return err
	}
	old, i := s.v.Node(n.Name)
	if old == nil {
		return s.addNode(&n)
	}
	if old.BootID != n.BootID {
		s.loseWorkers(i, "the node was booted anew")
	} else if err := s.keepsHeld(i, &n); err != nil {
		return err
	}
	n.State, n.Reason, n.Since, n.Drained = old.State, old.Reason, old.Since, old.Drained
	if n.State == NodeDown {
		s.rise(&n)
	}
	s.replaceNode(i, &n)
	s.touchNode(i)
	return nil
}

// rise brings a node back from being down.
func (s *State) rise(n *Node) {
	n.State, n.Reason, n.Since = NodeUp, "", s.now()
	event := EventNodeUp
	if n.Drained {
		n.State, event = NodeDrained, EventNodeDrain
	}
	s.emit(Event{Type: event, Node: n.Name})
}

// checkInventory refuses what the grid cannot hold.
func checkInventory(n *Node) error {
	bad := func(text string) error { return &InventoryError{n.Name, text} }
	switch {
	case n.Name == "" || len(n.Name) > 255 || strings.ContainsAny(n.Name, " \t\n/"):
		return bad("the name is empty, longer than 255 bytes, or has spaces or slashes")
	case n.BootID == "":
		return bad("the boot id is missing")
	case n.Cores < 1 || n.Cores > maxCores || n.Memory < 1 || n.Memory > maxMemory:
		return bad("cores or memory are out of range")
	case len(n.GPUs) > MaxGPUsPerNode:
		return bad(fmt.Sprintf("%d GPUs, at most %d", len(n.GPUs), MaxGPUsPerNode))
	case n.PortMin < 0 || n.PortMax > 65535 || n.PortMin > n.PortMax:
		return bad(fmt.Sprintf("port range %d to %d", n.PortMin, n.PortMax))
	}
	return nil
}

func (s *State) addNode(n *Node) error {
	if len(s.v.nodes) >= MaxNodes {
		return &LimitError{What: "the number of nodes", Asked: int64(len(s.v.nodes) + 1), Max: MaxNodes}
	}
	n.State, n.Reason, n.Since, n.Drained = NodeUp, "", s.now(), false
	at, _ := s.v.position(n.Name)
	for i := int64(len(s.v.nodes)); i > int64(at); i-- {
		h, _ := s.v.holdings.get(i - 1)
		s.v.holdings.set(i, h)
	}
	s.v.holdings.set(int64(at), &holding{modified: s.v.index, freed: s.v.at})
	s.v.nodes = slices.Insert(slices.Clone(s.v.nodes), at, n)
	s.ownGrid().insert(at, s.v.nodes)
	s.resite(at, nil)
	s.restock(nil, n)
	s.touched.node(n.Name)
	if at < len(s.v.nodes)-1 && !s.v.runs.empty() {
		s.reseat()
	}
	s.emit(Event{Type: EventNodeUp, Node: n.Name})
	return nil
}

// replaceNode stores a node that was there before.
func (s *State) replaceNode(i int, n *Node) {
	old := s.v.nodes[i]
	s.v.nodes = slices.Clone(s.v.nodes)
	s.v.nodes[i] = n
	s.resite(i, old)
	s.restock(old, n)
	s.touched.node(n.Name)
	if len(s.v.models) > 0 && !sameModels(old, n) {
		s.reseat()
	}
	s.ownGrid().replace(i, s.v.nodes, s.heldOn(i))
}

// replace puts the node at position i, on which each of held runs, in place of what was there.
func (g *Grid) replace(i int, nodes []*Node, held []need) {
	g.sort(i, false)
	g.nodes, g.usable, g.total = nodes, slices.Clone(g.usable), slices.Clone(g.total)
	g.usable[i], g.total[i] = healthy(nodes[i]), capacity(nodes[i])
	g.settle(i, held)
	if len(nodes[i].GPUs) >= g.Buckets() {
		g.fillBuckets()
		return
	}
	g.sort(i, true)
}

// insert adds a node, on which nothing runs, at position i.
func (g *Grid) insert(i int, nodes []*Node) {
	g.nodes = nodes
	g.usable = slices.Insert(slices.Clone(g.usable), i, healthy(nodes[i]))
	g.total = slices.Insert(slices.Clone(g.total), i, capacity(nodes[i]))
	g.makePlace(i)
	if len(g.lent) > 0 {
		g.lent = slices.Insert(g.lent, i*g.stride, make([]uint16, g.stride)...)
	}
	g.settle(i, nil)
	g.fillBuckets()
}

// settle makes the room of node i anew without putting it into a bucket.
func (g *Grid) settle(i int, held []need) {
	g.recall(i)
	rm := g.ownRoom(i)
	*rm = empty(g.nodes[i])
	rm.up = false
	for _, n := range held {
		g.Take(i, n.request, n.gpus)
	}
	rm.up = g.nodes[i].State == NodeUp
}

// makePlace moves the room on the nodes from position i on up by one, and leaves none there.
func (g *Grid) makePlace(i int) {
	g.resize()
	for k := len(g.nodes) - 1; k > i; k-- {
		to, from := g.ownPage(k/pageNodes), g.pages[(k-1)/pageNodes]
		to.room[k%pageNodes], to.claims[k%pageNodes] = from.room[(k-1)%pageNodes], from.claims[(k-1)%pageNodes]
	}
	p := g.ownPage(i / pageNodes)
	p.room[i%pageNodes], p.claims[i%pageNodes] = room{}, Vector{}
}

// need is what one worker holds.
type need struct {
	request Request
	gpus    []int
}

// heldOn returns what the workers on a node hold.
func (s *State) heldOn(i int) []need {
	h, _ := s.v.holdings.get(int64(i))
	needs := make([]need, 0, len(h.workers))
	for _, w := range h.workers {
		needs = append(needs, s.v.Job(w.job).needOf(w.worker))
	}
	return needs
}

// orNone makes "no GPUs" differ from "any GPUs".
func orNone(gpus []int) []int {
	if gpus == nil {
		return []int{}
	}
	return gpus
}

// regrid returns the grid made anew from nodes, what runs on them, and reservations.
func (s *State) regrid() *Grid {
	g := newGrid(s.v.nodes)
	for i := range s.v.nodes {
		g.sort(i, false)
		g.settle(i, s.heldOn(i))
		g.sort(i, true)
	}
	for _, r := range s.v.reservations {
		s.v.eachClaim(r, g.Claim)
	}
	return g
}

// keepsHeld refuses an inventory of the same boot that lacks what workers hold: GPUs are known by their index, and room that is in use
// cannot vanish. A broken GPU stays in its place, marked unhealthy.
func (s *State) keepsHeld(i int, n *Node) error {
	old := s.v.nodes[i]
	var used Vector
	for _, held := range s.heldOn(i) {
		used = used.plus(held.request.Resident)
		used.Cores += held.request.Active.Cores
		for _, g := range held.gpus {
			if g >= len(n.GPUs) || n.GPUs[g].UUID != old.GPUs[g].UUID {
				return &InventoryError{n.Name, fmt.Sprintf("GPU %d (%s) is in use and missing at its index", g, old.GPUs[g].UUID)}
			}
		}
	}
	if !used.within(capacity(n)) {
		return &InventoryError{n.Name, "cores or memory are less than what jobs hold there"}
	}
	return nil
}

// setNodeState marks a node up, down or drained. "up" for a drained node resumes it; for one that was down it says that the node has
// been heard of again, which leaves a drain in force.
func (s *State) setNodeState(c SetNodeState) error {
	old, i := s.v.Node(c.Node)
	switch {
	case old == nil:
		return fmt.Errorf("node %s: %w", c.Node, ErrNoNode)
	case c.BootID != "" && c.BootID != old.BootID:
		return fmt.Errorf("node %s: %w", c.Node, ErrOtherBoot)
	}
	n := *old
	switch c.State {
	case NodeUp:
		n.Drained = old.Drained && old.State == NodeDown
		n.State = NodeUp
		if n.Drained {
			n.State = NodeDrained
		}
	case NodeDrained:
		n.Drained = true
		if old.State == NodeUp {
			n.State = NodeDrained
		}
	case NodeDown:
		n.State = NodeDown
	default:
		return fmt.Errorf("node %s, state %q: %w", c.Node, c.State, ErrBadNodeState)
	}
	s.moveNode(i, &n, c.Reason)
	return nil
}

// moveNode stores a node whose state may have changed.
func (s *State) moveNode(i int, n *Node, reason string) {
	old := s.v.nodes[i]
	n.Reason = reason
	if n.State == old.State {
		s.replaceNode(i, n)
		return
	}
	n.Since = s.now()
	s.replaceNode(i, n)
	event := map[NodeState]EventType{NodeUp: EventNodeUp, NodeDown: EventNodeDown, NodeDrained: EventNodeDrain}[n.State]
	s.emit(Event{Type: event, Node: n.Name})
}

// loseWorkers ends, as lost, every worker on a node.
func (s *State) loseWorkers(i int, why string) {
	h, _ := s.v.holdings.get(int64(i))
	name := s.v.nodes[i].Name
	for _, w := range slices.Clone(h.workers) {
		there := func(x *Worker) bool { return x.Node == name }
		switch j := s.v.Job(w.job); {
		case j.Live() == nil:
		case slices.ContainsFunc(j.Live().Workers, func(x Worker) bool { return !x.State.Final() && there(&x) }):
			s.lose(j, there, why)
		default:
			s.forgoOn(j)
		}
	}
}

// ownHolding returns a node's holding ready to be written.
func (s *State) ownHolding(i int) *holding {
	old, _ := s.v.holdings.get(int64(i))
	if old.epoch == s.epoch {
		old.modified = s.v.index
		return old
	}
	next := &holding{workers: slices.Clone(old.workers), ports: slices.Clone(old.ports), modified: s.v.index, freed: old.freed, epoch: s.epoch}
	s.v.holdings.set(int64(i), next)
	return next
}

// FreedAt returns since when at least all that is free on the node at a position has been free, as far as that is known: since somebody last gave
// room back there, or since this replica was restored.
func (v *View) FreedAt(node int) Instant {
	h, _ := v.holdings.get(int64(node))
	return h.freed
}

// touchNode notes that what a node should know has changed.
func (s *State) touchNode(i int) {
	old, _ := s.v.holdings.get(int64(i))
	switch {
	case old.modified == s.v.index:
		return
	case old.epoch == s.epoch:
		old.modified = s.v.index
		return
	}
	next := *old
	next.modified = s.v.index
	s.v.holdings.set(int64(i), &next)
}

// touch notes that what the nodes of an attempt should do has changed.
func (s *State) touch(a *Attempt) {
	for i := range a.Workers {
		if w := &a.Workers[i]; !w.State.Final() {
			_, at := s.v.Node(w.Node)
			s.touchNode(at)
		}
	}
}
