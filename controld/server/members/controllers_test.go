package members

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestControllersOfACluster shows all that vote, and this one while it does not.
func TestControllersOfACluster(t *testing.T) {
	on := servertest.Leading(t, 3, &servertest.Links{})
	s := siteOn(&exchangetest.Site{Site: &servertest.Site{Leader: on}, Service: exchangetest.ServiceOn(t, on), T: t})
	s.Peers = &peers.Peers{}
	s.Name, s.Raft = s.Replica.Self().Name, "r:1"
	got, err := s.getCluster(s.Of(servertest.Named("ann", 7), ""))
	if err != nil || len(got.Controllers) != 3 || got.Leader == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	leader := got.Leader
	for i, c := range got.Controllers {
		if c.Name != fmt.Sprintf("c%d", i+1) || !c.Voter || c.State != api.ControllerVoter ||
			c.Leader != (c.Name == leader) || c.Raft == "" {
			t.Errorf("%+v", c)
		}
	}
	s.Name, s.HTTP = "new", "h:1"
	if got, err = s.getCluster(s.Of(servertest.Named("ann", 7), "")); err != nil || len(got.Controllers) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	if c := got.Controllers[3]; c.Name != "new" || c.Voter || c.State != api.ControllerNew || c.HTTP != "h:1" ||
		c.Raft != "r:1" || c.Leader {
		t.Errorf("%+v", c)
	}
}

// TestOtherControllersAreShown with what they said of themselves, and none that is up is removed.
func TestOtherControllersAreShown(t *testing.T) {
	s, _ := following(t)
	s.SubmitAt("one")
	s.HTTP, s.Raft = "h:9", "r:9"
	got, err := s.getCluster(s.Of(servertest.Named("ann", 7), ""))
	if err != nil || len(got.Controllers) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	v := s.Replica.View()
	if got.Index != v.Index() || got.Term != s.Replica.Term() || got.Version != v.Config().Version || got.Leader != "c1" ||
		got.Name != v.Config().ClusterName || got.Policy != v.Config().Policy.Name {
		t.Errorf("the cluster is %+v", got)
	}
	c1, c9 := got.Controllers[0], got.Controllers[1]
	if c1.Name != "c1" || !c1.Voter || !c1.Leader || c1.State != api.ControllerVoter || c1.Raft != "r:1" || c1.HTTP == "" {
		t.Errorf("the leader is %+v", c1)
	}
	if c9.Name != "c9" || c9.Voter || c9.Leader || c9.State != api.ControllerNew || c9.Raft != "r:9" || c9.HTTP != "h:9" {
		t.Errorf("this controller is %+v", c9)
	}
	if _, err := s.removeController(s.Of(servertest.Named("adm", 5),
		"c1")); servertest.CodeOf(err) != api.CodeWrongState ||
		!strings.Contains(err.Error(), "is up") {
		t.Errorf("a controller that is up is removed: %v", err)
	}
	if err := s.nameTaken(s.Of(nil, ""), "controller", "c1"); err == nil || !strings.Contains(err.Error(),
		"is up at r:1") {
		t.Errorf("the name of a controller that is up is free: %v", err)
	}
	if seeds := s.seeds(s.Of(nil, "")); !slices.Equal(seeds, []string{"g:1", "g:9"}) {
		t.Errorf("a machine that joins learns of %v", seeds)
	}
	s.Name = "c1"
	s.AuthorityState = func() (int64, string) { return 4, "issuer" }
	s.Knows = 3
	state, err := s.internalState(s.Of(nil, ""))
	want := peers.State{AuthorityKey: 4, Issuer: "issuer", Name: "c1", HTTP: "h:9", Raft: "r:9", Gossip: "g:9",
		HasState: true, Log: s.Replica.Self().Log, Applied: s.Replica.Applied(), Records: s.History.Last(), Knows: 3,
		Generation: s.Replica.View().Recovery().Generation.String(), Voters: s.Replica.Members()}
	if got, ok := state.(peers.State); err != nil || !ok || fmt.Sprint(got) != fmt.Sprint(want) || want.Log == "" ||
		want.Applied == 0 {
		t.Errorf("it says of itself %+v, %v, want %+v", state, err, want)
	}
}
