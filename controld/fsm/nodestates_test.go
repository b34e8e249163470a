package fsm

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestStatesOfANode goes from each state of a node by each command. It notices a drain that is
// lost, or begun, while a node is down and up again. It also notices a report of a state in which
// the node was already.
func TestStatesOfANode(t *testing.T) {
	set := func(s model.NodeState) func(*world) {
		return func(w *world) { w.must(SetNodeState{Node: "n1", State: s, Reason: "why"}) }
	}
	register := func(edit func(*model.Node)) func(*world) {
		return func(w *world) {
			n := testNode("n1", 4)
			n.State, n.Drained, n.Reason = model.NodeDrained, true, "not asked" // are ignored
			edit(&n)
			w.must(RegisterNode{Node: n})
		}
	}
	const up, down, drained = model.NodeUp, model.NodeDown, model.NodeDrained
	starts := map[string][]model.NodeState{"up": nil, "drained": {drained}, "down": {down}, "both": {drained, down}}
	type end struct {
		state   model.NodeState
		drained bool
	}
	for name, c := range map[string]struct {
		do   func(*world)
		ends map[string]end
		asks bool // says a reason of its own
	}{
		"up": {set(up), map[string]end{"up": {up, false}, "drained": {up, false}, "down": {up, false},
			"both": {drained, true}}, true},
		"down": {set(down), map[string]end{"up": {down, false}, "drained": {down, true}, "down": {down, false},
			"both": {down, true}}, true},
		"drained": {set(drained), map[string]end{"up": {drained, true}, "drained": {drained, true}, "down": {down, true},
			"both": {down, true}}, true},
		"register": {register(func(*model.Node) {}), map[string]end{"up": {up, false}, "drained": {drained, true},
			"down": {up, false}, "both": {drained, true}}, false},
		"boot": {register(func(n *model.Node) { n.BootID = "b2" }), map[string]end{"up": {up, false},
			"drained": {drained, true}, "down": {up, false}, "both": {drained, true}}, false},
	} {
		for start, before := range starts {
			w := newWorld(t)
			w.node("n1", 4)
			for _, s := range before {
				w.wait(1)
				w.must(SetNodeState{Node: "n1", State: s, Reason: "before"})
			}
			old := *w.s.v.Nodes()[0]
			events := len(w.s.v.Events(0))
			w.wait(1)
			c.do(w)
			n, want := w.s.v.Nodes()[0], c.ends[start]
			moved := want.state != old.State
			since, reason := old.Since.At, old.Reason
			if moved {
				since, reason = w.at, ""
			}
			if c.asks {
				reason = "why"
			}
			if n.State != want.state || n.Drained != want.drained || n.Since.At != since || n.Reason != reason {
				t.Errorf("%s, then %s: %s since %d, drained %t, %q; want %s since %d, drained %t, %q", start, name, n.State,
					n.Since.At, n.Drained, n.Reason, want.state, since, want.drained, reason)
			}
			var said []model.EventType
			for _, e := range w.s.v.Events(0)[events:] {
				said = append(said, e.Type)
			}
			event := map[model.NodeState]model.EventType{up: model.EventNodeUp, down: model.EventNodeDown,
				drained: model.EventNodeDrain}[want.state]
			if moved != slices.Equal(said, []model.EventType{event}) || !moved && len(said) > 0 {
				t.Errorf("%s, then %s: events %v", start, name, said)
			}
		}
	}
}

// TestWhichPortsStayTaken has a node register anew: another boot, and other ports, free those at which
// something else listened.
func TestWhichPortsStayTaken(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*model.Node)
		kept bool
	}{
		"as before":          {func(*model.Node) {}, true},
		"another boot":       {func(n *model.Node) { n.BootID = "b2" }, false},
		"another first port": {func(n *model.Node) { n.PortMin-- }, false},
		"another last port":  {func(n *model.Node) { n.PortMax++ }, false},
	} {
		w := newWorld(t)
		w.node("n1", 4)
		taken := *w.s.v.Nodes()[0]
		taken.PortsTaken = []int{20001}
		w.s.s.ReplaceNode(0, &taken)
		n := testNode("n1", 4)
		n.PortsTaken = []int{20003} // a node does not say so
		c.edit(&n)
		w.must(RegisterNode{Node: n})
		if got := w.s.v.Nodes()[0].PortsTaken; c.kept != slices.Equal(got, []int{20001}) || !c.kept && len(got) > 0 {
			t.Errorf("%s: taken %v", name, got)
		}
	}
}

// TestWhoIsRefusedOfANode: a command for an earlier boot, and one for an unknown node or state.
func TestWhoIsRefusedOfANode(t *testing.T) {
	for name, c := range map[string]struct {
		command SetNodeState
		want    error
	}{
		"this boot":     {SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown}, nil},
		"no boot named": {SetNodeState{Node: "n1", State: model.NodeDown}, nil},
		"another boot":  {SetNodeState{Node: "n1", BootID: "b0", State: model.NodeDown}, model.ErrOtherBoot},
		"no such node":  {SetNodeState{Node: "n2", State: model.NodeDown}, model.ErrNoNode},
		"no such state": {SetNodeState{Node: "n1", State: "asleep"}, model.ErrBadNodeState},
	} {
		w := newWorld(t)
		w.node("n1", 4)
		_, err := w.apply(c.command)
		if c.want != nil {
			w.refused(err, c.want)
		} else {
			w.ok(err)
		}
		if down := w.s.v.Nodes()[0].State == model.NodeDown; down != (c.want == nil) {
			t.Errorf("%s: down %t", name, down)
		}
	}
}
