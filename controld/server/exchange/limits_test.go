package exchange

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestWhichNodesRefuse lists those that refused within a minute, and tells of each generation once.
func TestWhichNodesRefuse(t *testing.T) {
	var r refusingNodes
	one, two := generation.Generation{Number: 1, ID: "00000000000000aa"}, generation.Generation{Number: 2,
		ID: "00000000000000aa"}
	for i, c := range []struct {
		node  string
		g     generation.Generation
		first bool
	}{{"n2", one, true}, {"n2", one, false}, {"n1", one, true}, {"n2", two, true}} {
		if r.note(c.node, c.g) != c.first {
			t.Errorf("note %d is the first: %t", i, !c.first)
		}
	}
	want := []api.RefusingNode{{Node: "n1", Generation: one.String()}, {Node: "n2", Generation: two.String()}}
	if got := r.list(); !reflect.DeepEqual(got, want) {
		t.Errorf("they refuse: %+v", got)
	}
	r.nodes["n1"] = followed{one, time.Now().Add(-refusedFor)}
	r.nodes["n2"] = followed{two, time.Now().Add(-refusedFor + 30*time.Second)}
	if got := r.list(); !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("after a minute they refuse: %+v", got)
	}
}

// TestHowManyUsersAreCounted: with one more than there is room for all begin anew.
func TestHowManyUsersAreCounted(t *testing.T) {
	var p processorTime
	now := time.Unix(1_000_000, 0)
	for uid := range uint32(readers) {
		p.spend(uid, 6*time.Second, 50, now)
	}
	if p.wait(0, 50, now) == 0 || len(p.users) != readers {
		t.Errorf("%d users are counted of %d, and the first waits %v", len(p.users), readers, p.wait(0, 50, now))
	}
	p.spend(readers, 6*time.Second, 50, now)
	if p.wait(0, 50, now) != 0 || p.wait(readers, 50, now) == 0 || len(p.users) != 1 {
		t.Errorf("%d users are counted after one more", len(p.users))
	}
}

// TestChangesThatAMajorityOfNodesWouldNotSee: with so many nodes that follow another generation.
func TestChangesThatAMajorityOfNodesWouldNotSee(t *testing.T) {
	s := small(t)
	other := generation.Generation{Number: 9, ID: "00000000000000aa"}
	for nodes := 0; nodes <= 5; nodes++ {
		if nodes > 0 {
			servertest.Boot(t, s.Replica, fmt.Sprint("n", nodes), "b")
		}
		for lost := 0; lost <= nodes; lost++ {
			s.refusing = refusingNodes{}
			s.refusing.note("stranger", other)
			for i := range lost {
				s.refusing.note(fmt.Sprint("n", i+1), other)
			}
			want := ""
			if lost > nodes-lost {
				want = api.CodeGeneration
			}
			x := s.Of(servertest.Named("ann", 7), "")
			for _, c := range []fsm.Command{fsm.SubmitJobs{}, fsm.ControlJobs{}, fsm.UpdateJobs{}} {
				err := x.checkFollowed(c)
				if servertest.CodeOf(err) != want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%d of %d nodes",
					lost, nodes)) {
					t.Errorf("%s, %d of %d nodes are lost: %v", c.Kind(), lost, nodes, err)
				}
			}
			if err := x.checkFollowed(fsm.SetNodeState{}); err != nil {
				t.Errorf("a change of a node: %v", err)
			}
		}
	}
	if _, err := s.Of(servertest.Named("ann", 7),
		"").Propose(fsm.SubmitJobs{}); servertest.CodeOf(err) != api.CodeGeneration {
		t.Errorf("the change is proposed: %v", err)
	}
}
