package members

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestAMachineJoins with the secret of a token for its role, once, and a stranger learns and leaves nothing.
func TestAMachineJoins(t *testing.T) {
	s := keyed(t)
	s.Gossip = "g:1"
	servertest.Boot(t, s.Replica, "up", "b")
	token := func(role string) string {
		t.Helper()
		made, err := s.createJoinToken(s.Of(servertest.Named("adm", 5), ""), &api.JoinTokenRequest{Role: role})
		if err != nil || made.Role != role || made.ExpiresIn < 86_300 || made.ExpiresIn > 86_400 {
			t.Fatalf("%+v, %v", made, err)
		}
		read, err := pki.ParseToken(made.Token)
		if err != nil {
			t.Fatal(err)
		}
		return read.Secret()
	}
	request := func() string {
		r, err := pki.NewRequest()
		if err != nil {
			t.Fatal(err)
		}
		return string(r.PEM)
	}
	node, login, mine := token("node"), token("login"), request()
	if tokens := s.Replica.View().Trust().Tokens; len(tokens) != 2 || tokens[0].By != "adm" || tokens[0].Role != "node" {
		t.Errorf("the log has %+v", tokens)
	}
	for _, c := range []struct {
		name string
		req  api.JoinRequest
		code string
		says string
	}{
		{"no role", api.JoinRequest{Secret: node, Role: "x", Name: "n1", Request: mine}, api.CodeInvalid, "not a role"},
		{"no name", api.JoinRequest{Secret: node, Role: "node", Name: "a b", Request: mine}, api.CodeInvalid, "'s name"},
		{"a wrong secret", api.JoinRequest{Secret: "x", Role: "node", Name: "n1", Request: mine}, "", "not known"},
		{"no request", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: "x"}, api.CodeInvalid, ""},
		{"another role", api.JoinRequest{Secret: login, Role: "node", Name: "n1", Request: mine}, "", "another role"},
		{"a taken name", api.JoinRequest{Secret: node, Role: "node", Name: "up", Request: mine}, api.CodeWrongState, "is up"},
		{"good", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: mine}, "ok", ""},
		{"again", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: mine}, "ok", ""},
		{"another machine", api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: request()}, "", "used already"},
		{"another name", api.JoinRequest{Secret: node, Role: "node", Name: "n2", Request: mine}, "", "used already"},
		{"a login node", api.JoinRequest{Secret: login, Role: "login", Name: "l1", Request: mine}, "ok", ""},
	} {
		before := s.Replica.View().Index()
		x := s.Of(nil, "")
		grant, err := s.join(x, &c.req)
		moved := s.Replica.View().Index() > before
		if (err == nil) != (c.code == "ok") || moved != (err == nil) ||
			err != nil && !strings.Contains(err.Error(), c.says) || c.code != "ok" && c.code != "" &&
			servertest.CodeOf(err) != c.code {
			t.Errorf("%s: %v, an entry %t", c.name, err, moved)
		}
		if err == nil && (grant.Cert == "" || !slices.Contains(grant.Seeds, "g:1") || x.About.Object != c.req.Role+"/"+
			c.req.Name) {
			t.Errorf("%s: %+v, about %q", c.name, grant, x.About.Object)
		}
	}
	wrong := api.JoinRequest{Secret: "x", Role: "node", Name: "n1"}
	for range strangerBurst {
		_, _ = s.join(s.Of(nil, ""), &wrong)
	}
	if _, err := s.join(s.Of(nil, ""), &wrong); servertest.CodeOf(err) != api.CodeLimit {
		t.Errorf("after too many wrong secrets: %v", err)
	}
	again := api.JoinRequest{Secret: node, Role: "node", Name: "n1", Request: mine}
	if _, err := s.join(s.Of(nil, ""), &again); err != nil {
		t.Errorf("a right secret after too many wrong ones: %v", err)
	}
	s.Peers = &peers.Peers{}
	s.strangers = strangers{}
	s.Replica.StopLeading()
	for _, secret := range []string{node, "x"} { // the leader may know a token that this one does not
		again.Secret = secret
		if _, err := s.join(s.Of(nil, ""), &again); servertest.CodeOf(err) != api.CodeNoLeader {
			t.Errorf("a follower decides on secret %q: %v", secret, err)
		}
	}
	s.Replica.StartLeading()
	renew := s.Of(&identity.Caller{Machine: true, Role: "node", From: "n1"}, "")
	if got, err := s.renewCertificate(renew, &api.CertificateRequest{Request: mine}); err != nil || got.Cert == "" {
		t.Errorf("a new certificate: %+v, %v", got, err)
	}
	if _, err := s.renewCertificate(renew,
		&api.CertificateRequest{Request: "x"}); servertest.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a request that is none: %v", err)
	}
	s.Credential = nil
	if _, err := s.join(s.Of(nil, ""), &again); servertest.CodeOf(err) != api.CodeWrongState {
		t.Errorf("without an authority: %v", err)
	}
}

// TestHowManyWrongSecretsAreTaken: so many at once from one network, from all of them, and no more.
func TestHowManyWrongSecretsAreTaken(t *testing.T) {
	var s strangers
	taken := 0
	for s.mayFail("10.0.0.1:7") {
		taken++
	}
	if taken != strangerBurst {
		t.Errorf("one network has shown %d wrong secrets at once, at most %d are allowed", taken, strangerBurst)
	}
	if s.mayFail("10.0.0.1:8") || !s.mayFail("10.0.1.1:7") {
		t.Error("another port of the network counts for it, and another network for itself")
	}
	for i := range 200 {
		if s.mayFail(fmt.Sprintf("10.1.%d.1:7", i)) {
			taken++
		}
	}
	if all := taken + 1; all < strangersMost || all > strangersMost+strangersRate { // a second may pass meanwhile
		t.Errorf("all networks have shown %d wrong secrets at once, at most %d are allowed", all, strangersMost)
	}
	for i := range strangersKept {
		s.mayFail(fmt.Sprintf("11.%d.%d.1:7", i/256, i%256))
	}
	if n := len(s.by); n > strangersKept {
		t.Errorf("%d networks are known", n)
	}
}

// TestMachinesThatMayJoin goes through names that are taken, and roles.
func TestMachinesThatMayJoin(t *testing.T) {
	s := small(t)
	servertest.Boot(t, s.Replica, "up", "b")
	servertest.Boot(t, s.Replica, "down", "b")
	s.Do(fsm.SetNodeState{Node: "down", State: model.NodeDown})
	s.Name = "self" // the log knows this controller as c1
	for name, c := range map[string]struct {
		role  pki.Role
		name  string
		taken bool
	}{"itself": {pki.Controller, "self", true}, "a voter": {pki.Controller, "c1", true}, "a new one": {pki.Controller,
		"c2", false},
		"a node that is up": {pki.Node, "up", true}, "a node that is down": {pki.Node, "down", false},
		"a new node": {pki.Node, "new", false}, "a login node of that name": {pki.Login, "up", false}} {
		if err := s.nameTaken(s.Of(nil, ""), c.role, c.name); (err != nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		role, name string
		generation int
		code       string
	}{{"node", "n1", 1, ""}, {"node", "n1", 2, ""}, {"login", "n1", 1, ""}, {"controller", "c1", 0, api.CodeInvalid},
		{"x", "n1", 0, api.CodeInvalid}, {"node", "a b", 0, api.CodeInvalid}} {
		x := s.Of(servertest.Named("adm", 5), c.name)
		x.Request.SetPathValue("role", c.role)
		got, err := s.revoke(x)
		if servertest.CodeOf(err) != c.code || err == nil && (int(got.Generation) != c.generation || got.Role != c.role ||
			got.Name != c.name) {
			t.Errorf("%s %s: %+v, %v", c.role, c.name, got, err)
		}
	}
	remove := func(name string) error {
		_, err := s.removeController(s.Of(servertest.Named("adm", 5), name))
		return err
	}
	if servertest.CodeOf(remove("c9")) != api.CodeNotFound {
		t.Error("a controller that there is not is removed")
	}
	s.Name = "c1"
	if servertest.CodeOf(remove("c1")) != api.CodeWrongState {
		t.Error("this controller is removed")
	}
	if got, err := s.getCluster(s.Of(servertest.Named("ann", 7), "")); err != nil || got.Leader != "c1" ||
		len(got.Controllers) != 1 ||
		!got.Controllers[0].Voter || !got.Controllers[0].Leader || got.Controllers[0].State != api.ControllerVoter ||
		got.Generation != nil || got.GossipKey != nil || got.Witnesses != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.createJoinToken(s.Of(servertest.Named("adm", 5), ""),
		&api.JoinTokenRequest{Role: "node"}); servertest.CodeOf(err) != api.CodeWrongState {
		t.Errorf("without an authority: %v", err)
	}
	if _, err := s.createJoinToken(s.Of(servertest.Named("adm", 5), ""),
		&api.JoinTokenRequest{Role: "x"}); servertest.CodeOf(err) != api.CodeInvalid {
		t.Errorf("an odd role: %v", err)
	}
}

// keyed is a small controller with an authority.
func keyed(t *testing.T) *site {
	t.Helper()
	s := small(t)
	dir := filepath.Join(t.TempDir(), "tls")
	if _, err := pki.Init(dir, "c1"); err != nil {
		t.Fatal(err)
	}
	credential, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Credential = credential
	return s
}
