package fsm

import (
	"errors"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/witness"
)

func witnessSet(number uint64, members ...string) witness.Set {
	return witness.Set{Number: number, Members: members, Silence: 30_000, Hold: 600_000, Margin: 30_000}
}

// witnessed returns a world of nodes that are witnesses, and a job on the first of them.
func witnessed(t *testing.T) (*world, model.JobID) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		w.node(n, 4)
	}
	w.must(ChooseWitnesses{Set: witnessSet(1, "n1", "n2", "n3")})
	return w, w.running(1, []string{"n1"})
}

// TestALostJobWaitsForTheWitnesses: the end of its lease is not enough, and the leader's word holds until the
// node is heard of again.
func TestALostJobWaitsForTheWitnesses(t *testing.T) {
	w, id := witnessed(t)
	w.down("n1")
	dead := DeclareLost{Node: "n1", BootID: "b1", Newest: 1}
	if _, err := w.apply(dead); !errors.Is(err, model.ErrLeaseRunning) {
		t.Errorf("while its lease runs: %v", err)
	}
	w.wait(30 * 86400)
	if err := w.plan(lost(id)); !errors.Is(err, model.ErrLeaseRunning) {
		t.Errorf("after 30 days, without the leader's word: %v", err)
	}
	for name, c := range map[string]DeclareLost{
		"another boot": {Node: "n1", BootID: "b0", Newest: 1}, "an older choice": {Node: "n1", BootID: "b1"},
		"a node that is up": {Node: "n2", BootID: "b1", Newest: 1}, "no node": {Node: "n9", Newest: 1},
	} {
		if _, err := w.apply(c); err == nil {
			t.Errorf("%s is declared lost", name)
		}
	}
	w.must(dead)
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeUp})
	w.down("n1")
	w.wait(30 * 86400)
	if err := w.plan(lost(id)); !errors.Is(err, model.ErrLeaseRunning) {
		t.Errorf("it was heard of since the leader's word: %v", err)
	}
	w.must(dead)
	w.ok(w.plan(lost(id)))
	w.state(id, model.Pending)
	w.cause(id, model.CauseNodeLost)
}

// TestOneThatRegistersIsNotGone: what holds for a boot does not hold for the node when it registers again.
func TestOneThatRegistersIsNotGone(t *testing.T) {
	w, _ := witnessed(t)
	w.down("n1")
	w.wait(700)
	w.must(DeclareLost{Node: "n1", BootID: "b1", Newest: 1})
	n := testNode("n1", 4)
	n.Gone, n.Witnesses = true, 99
	w.must(RegisterNode{Node: n})
	if got, _ := w.s.v.Node("n1"); got.Gone || got.Witnesses != 1 {
		t.Errorf("gone %v, witnesses %d", got.Gone, got.Witnesses)
	}
}

// TestSetsOutOfUse: a set stays as long as a node with jobs may have nothing newer.
func TestSetsOutOfUse(t *testing.T) {
	w, _ := witnessed(t)
	sets := func(want ...uint64) {
		t.Helper()
		c := w.s.v.Chosen()
		if len(c.Sets) != len(want) || c.Sets[0].Number != want[0] || c.Last != want[len(want)-1] {
			t.Errorf("sets %+v, want %v", c.Sets, want)
		}
	}
	stored := func(boot string, number uint64) {
		w.must(NoteWitnesses{Nodes: []StoredWitnesses{{Node: "n1", BootID: boot, Number: number}}})
	}
	w.must(ChooseWitnesses{Set: witnessSet(2, "n2", "n3", "n4")})
	w.must(ChooseWitnesses{Set: witnessSet(3, "n1", "n3", "n4")})
	sets(1, 2, 3)
	stored("b0", 3) // another boot
	stored("b1", 4) // never chosen
	sets(1, 2, 3)
	stored("b1", 2)
	sets(2, 3)
	stored("b1", 1) // late
	sets(2, 3)
	stored("b1", 3)
	sets(3)
	w.must(ChooseWitnesses{Set: witnessSet(4, "n1", "n3", "n4")})
	w.running(1, []string{"n2"}) // it hears of the job with the fourth set
	if n, _ := w.s.v.Node("n2"); n.Witnesses != 4 {
		t.Errorf("node n2 has set %d at least", n.Witnesses)
	}
	w.running(1, []string{"n1"}) // it may not hear of this one, and go on with the first by the third set
	sets(3, 4)
	for name, s := range map[string]witness.Set{"a gap": witnessSet(6, "n1", "n2", "n3"),
		"no node": witnessSet(5, "n1", "n2", "n9"), "two": witnessSet(5, "n1", "n2")} {
		if _, err := w.apply(ChooseWitnesses{Set: s}); err == nil {
			t.Errorf("%s is chosen", name)
		}
	}
}

// TestAnotherMachineWaitsForTheWitnesses: neither a clone nor a new machine becomes the node while its jobs may
// go on, however long its lease is over.
func TestAnotherMachineWaitsForTheWitnesses(t *testing.T) {
	w, id := witnessed(t)
	waiting := w.running(1, []string{"n1"}, waits)
	clone := testNode("n1", 4)
	clone.BootID, clone.Machine = "b2", "another"
	w.down("n1")
	w.wait(30 * 86400)
	if _, err := w.apply(RegisterNode{Node: clone}); !errors.Is(err, model.ErrOtherMachine) {
		t.Errorf("while its witnesses may keep it: %v", err)
	}
	w.must(DeclareLost{Node: "n1", BootID: "b1", Newest: 1})
	w.ok(w.plan(lost(id)))
	if _, err := w.apply(RegisterNode{Node: clone}); !errors.Is(err, model.ErrOtherMachine) {
		t.Errorf("while a job waits for it: %v", err)
	}
	w.must(ConfirmDead{Nodes: []string{"n1"}, By: "root"})
	w.state(waiting, model.Pending)
	w.must(RegisterNode{Node: clone})
}
