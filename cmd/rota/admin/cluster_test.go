package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// TestNodesOneByOne notices a drain that is a resume, one that ends at the first refusal, and lists
// that are taken for names.
func TestNodesOneByOne(t *testing.T) {
	a := rotatest.NewAnswers(t)
	for _, n := range []string{"n1", "n3"} {
		a.Give("POST /v1/nodes/"+n+"/drain", api.Node{Name: n})
		a.Give("POST /v1/nodes/"+n+"/resume", api.Node{Name: n})
	}
	a.Refuse("POST /v1/nodes/n2/drain", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "operators only"})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("node", "drain", "n[1-3]", "--reason", "fan")
	if got.Code != exit.Denied || got.Stdout != "2 drained\n" || !strings.Contains(got.Stderr, "operators only") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("node", "resume", "n1,n3"); got.Code != 0 || got.Stdout != "2 resumed\n" {
		t.Errorf("%+v", got)
	}
	var what []string
	for _, r := range a.Requests() {
		what = append(what, r.What)
	}
	if got := strings.Join(what, " "); got != "POST /v1/nodes/n1/drain POST /v1/nodes/n2/drain POST /v1/nodes/n3/drain "+
		"POST /v1/nodes/n1/resume POST /v1/nodes/n3/resume" {
		t.Errorf("asked %s", got)
	}
}

func TestCheckSucceeds(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/check", api.Check{Index: 9, OK: true})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	if got := s.Run("check"); got.Code != 0 || got.Stdout != "ok: all invariants hold at index 9\n" || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	a.Give("GET /v1/check", api.Check{Index: 9, Violations: []string{"a", "b"}})
	got := s.Run("check", "-o", "json")
	var back api.Check
	if err := json.Unmarshal([]byte(got.Stdout), &back); err != nil || got.Code != exit.Failed ||
		len(back.Violations) != 2 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	if got := s.Run("check", "x"); got.Code != exit.Usage {
		t.Errorf("with an argument: %+v", got)
	}
}

// TestWrongCommandLinesAskNothing notices a word that is ignored: rota cluster revoke without a
// member must not show the cluster as if it had done something.
func TestWrongCommandLinesAskNothing(t *testing.T) {
	a := rotatest.NewAnswers(t)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for _, args := range []string{"cluster revoke", "cluster remove", "cluster revoke n1", "cluster revoke node/",
		"cluster revoke /n1",
		"cluster revoke node/n1 n2", "cluster join-token node", "cluster frob", "node drain n1", "node resume", "check x"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage || got.Stdout != "" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	if asked := a.Requests(); len(asked) > 0 {
		t.Errorf("asked %+v", asked)
	}
}

// TestRolesOfControllers notices a controller without a vote, or out of reach, that is shown as sound.
func TestRolesOfControllers(t *testing.T) {
	for want, m := range map[string]api.Controller{", leader": {Leader: true, Voter: true, HTTP: "a"},
		", unreachable": {Voter: true},
		", no vote yet": {HTTP: "a"}, "": {HTTP: "a", Voter: true},
		", no vote yet: it is catching up":                                 {HTTP: "a", State: api.ControllerLearner},
		", has lost its log: no vote until it has caught up with a leader": {HTTP: "a", State: api.ControllerNoLog}} {
		if got := roleOf(&m); got != want {
			t.Errorf("%+v: %q", m, got)
		}
	}
}

// TestJoinTokensAndRevocations notices a token for another role than was asked for, one that is mixed
// with other text, and a revocation of another member.
func TestJoinTokensAndRevocations(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/join-tokens", api.JoinToken{Token: "secret", Role: "login", ExpiresIn: 86400})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster", "join-token", "--role", "login")
	if got.Code != 0 || got.Stdout != "secret\n" || !strings.Contains(got.Stderr, "one machine of role login") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("cluster", "join-token"); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	var roles []string
	for _, r := range a.Requests() {
		var sent api.JoinTokenRequest
		if err := json.Unmarshal([]byte(r.Body), &sent); err != nil || r.What != "POST /v1/join-tokens" {
			t.Errorf("asked %+v, %v", r, err)
		}
		roles = append(roles, sent.Role)
	}
	if got := strings.Join(roles, " "); got != "login node" {
		t.Errorf("asked for %s", got)
	}
	a.Refuse("POST /v1/join-tokens", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "admins only"})
	if got := s.Run("cluster", "join-token"); got.Code != exit.Denied || got.Stdout != "" {
		t.Errorf("refused: %+v", got)
	}
}
