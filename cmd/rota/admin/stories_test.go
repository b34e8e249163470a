package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/manual"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// denied is the answer to a user that may not do something.
var denied = api.Problem{Title: "Denied", Status: 403, Code: api.CodeDenied, Detail: "only admins may do this",
	Hint: "ask an admin"}

// threeControllers is a controller that shows three controllers.
func threeControllers(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab", Version: 3, Leader: "c2", Controllers: []api.Controller{
		{Name: "c1", HTTP: "a:1", Voter: true}, {Name: "c2", HTTP: "b:1", Voter: true, Leader: true}, {Name: "c3",
			Voter: true},
	}})
	a.Give("GET /v1/config", cluster.DefaultConfig())
	return a
}

// TestTheClusterIsShown notices a role of a controller that is shown at another, and a policy that is
// missing.
func TestTheClusterIsShown(t *testing.T) {
	a := threeControllers(t)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster")
	want := "Cluster lab, version 3\n  controller c1\n  controller c2, leader\n  controller c3, unreachable\n\n"
	if got.Code != 0 || got.Stderr != "" || !strings.HasPrefix(got.Stdout, want) ||
		!strings.Contains(got.Stdout[len(want):], "policy") {
		t.Errorf("%+v", got)
	}
	var shown struct {
		Name        string
		Controllers []struct{ Name string }
		Settings    map[string]any
	}
	got = s.Run("cluster", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &shown); err != nil || shown.Name != "lab" ||
		len(shown.Controllers) != 3 || len(shown.Settings) == 0 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	a.On("GET /v1/cluster", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderStale, "90")
		_ = json.NewEncoder(w).Encode(api.Cluster{Name: "lab"})
	})
	if got := s.Run("cluster"); got.Code != 0 || got.Stderr !=
		"rota: warning: the controller has had no contact with a leader for 1m30s: its data may be that old\n" {
		t.Errorf("without a leader: %+v", got)
	}
	for _, what := range []string{"GET /v1/config", "GET /v1/cluster"} {
		a.Refuse(what, denied)
		if got := s.Run("cluster"); got.Code != exit.Denied || got.Stdout != "" ||
			got.Stderr != "rota: only admins may do this\n  hint: ask an admin\n" {
			t.Errorf("%s refused: %+v", what, got)
		}
	}
}

// TestControllersAreRemovedOneByOne notices a vote that is taken from another controller, and a
// refusal that hides what was done.
func TestControllersAreRemovedOneByOne(t *testing.T) {
	a := threeControllers(t)
	a.Give("POST /v1/controllers/c1/remove", api.Cluster{})
	a.Refuse("POST /v1/controllers/c2/remove", api.Problem{Status: 409, Code: api.CodeWrongState,
		Detail: "controller c2 still runs", Hint: "stop it first"})
	a.Give("POST /v1/controllers/c3/remove", api.Cluster{})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster", "remove", "c1", "c2", "c3")
	if got.Code != exit.Failed || got.Stdout != "2 removed\n" ||
		got.Stderr != "rota: controller c2 still runs\n  hint: stop it first\n" {
		t.Errorf("%+v", got)
	}
	if asked := a.Requests(); len(asked) != 3 || asked[1].What != "POST /v1/controllers/c2/remove" {
		t.Errorf("asked %+v", asked)
	}
}

// TestMembersAreRevoked notices a revocation of another role or name.
func TestMembersAreRevoked(t *testing.T) {
	a := threeControllers(t)
	a.Give("POST /v1/members/node/gpu01/revoke", api.Revocation{Role: "node", Name: "gpu01", Generation: 2})
	a.Refuse("POST /v1/members/login/gpu01/revoke", api.Problem{Status: 404, Code: api.CodeNotFound,
		Detail: "there is no member \"login/gpu01\""})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster", "revoke", "node/gpu01", "login/gpu01")
	if got.Code != exit.NotFound || got.Stdout != "1 revoked\n" ||
		got.Stderr != "rota: there is no member \"login/gpu01\"\n" {
		t.Errorf("%+v", got)
	}
	got = s.Run("cluster", "revoke", "gpu01")
	if got.Code != exit.Usage || got.Stderr != "rota: \"gpu01\": write ROLE/NAME, such as node/gpu01\n" {
		t.Errorf("without a role: %+v", got)
	}
}

// TestTheKeyIsReplaced notices a change of the key that is not asked for, or not told of.
func TestTheKeyIsReplaced(t *testing.T) {
	a := threeControllers(t)
	a.Give("POST /v1/gossip-key/rotate", api.GossipKey{Number: 3, Phase: "installed"})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster", "rotate-key")
	if got.Code != 0 || !strings.HasPrefix(got.Stdout, "gossip key 3 is installed; ") || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	if got = s.Run("cluster", "rotate-key", "now"); got.Code != exit.Usage {
		t.Errorf("with an argument: %+v", got)
	}
}

// TestTheAuthorityIsReplaced notices a replacement that is not asked for, one that is ended without --finish,
// and machines without a certificate that are not named.
func TestTheAuthorityIsReplaced(t *testing.T) {
	a := threeControllers(t)
	a.Give("POST /v1/authority/rotate", api.AuthorityChange{Number: 2, Phase: "trusted"})
	a.Give("POST /v1/authority/finish", api.AuthorityChange{Number: 2, Lacking: []string{"node/n1", "node/n2"}, More: 3})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster", "rotate-authority")
	if got.Code != 0 || !strings.HasPrefix(got.Stdout, "authority 2 is now trusted in addition to the old one. ") ||
		got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	got = s.Run("cluster", "rotate-authority", "--finish")
	if got.Code != 0 || got.Stdout != "only authority 2 is trusted now\nnode/n1, node/n2 and 3 more have no "+
		"certificate of this authority and must join again with a token\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"rotate-authority", "now"}, {"rotate-key", "--finish"}, {"--finish"}} {
		if got = s.Run(append([]string{"cluster"}, args...)...); got.Code != exit.Usage {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for phase, want := range map[string]string{
		"trusted": "  authority 2 of certificates: trusted; controller/c2 has no copy of its key yet\n",
		"issues":  "  authority 2 of certificates: issues; controller/c2 has no certificate from it yet\n",
	} {
		if got := authorityText(&api.AuthorityChange{Number: 2, Phase: phase,
			Lacking: []string{"controller/c2"}}); got != want {
			t.Errorf("%q", got)
		}
	}
}

// TestAJoinTokenForAMachine notices a token of another role, and one that a script cannot read.
func TestAJoinTokenForAMachine(t *testing.T) {
	a := threeControllers(t)
	a.Give("POST /v1/join-tokens", api.JoinToken{Token: "rota-join.x", Role: "node", ExpiresIn: 86400})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("cluster", "join-token")
	if got.Code != 0 || got.Stdout != "rota-join.x\n" ||
		got.Stderr != "rota: good for one machine of role node, for 1d\n" {
		t.Errorf("%+v", got)
	}
	var token api.JoinToken
	got = s.Run("cluster", "join-token", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &token); err != nil || token.Token != "rota-join.x" || got.Stderr != "" {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	before := len(a.Requests())
	for _, args := range [][]string{{"cluster", "join-token", "--role", "frob"}, {"cluster", "join-token", "--role", ""},
		{"cluster", "--role", "node"}, {"cluster", "remove", "c1", "--role", "node"}} {
		if got := s.Run(args...); got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, "--role") {
			t.Errorf("rota %q: %+v", args, got)
		}
	}
	if got := len(a.Requests()); got != before {
		t.Errorf("a wrong command line asked %d times", got-before)
	}
}

// TestALostTokenIsSaidToBeLost notices tokens that exist and that no user has: the message must not
// read as if none had been made.
func TestALostTokenIsSaidToBeLost(t *testing.T) {
	a := threeControllers(t)
	a.On("POST /v1/join-tokens", rotatest.Cut)
	a.On("POST /v1/tokens", rotatest.Cut)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for args, want := range map[string]string{"cluster join-token": "a token may have been made, but its text is lost",
		"token create": "\"rota token list\" shows its id"} {
		before := len(a.Requests())
		got := s.Run(strings.Fields(args)...)
		if got.Code != exit.Unreachable || got.Stdout != "" || !strings.Contains(got.Stderr, want) {
			t.Errorf("rota %s: %+v", args, got)
		}
		if n := len(a.Requests()) - before; n != 1 {
			t.Errorf("rota %s asked %d times: each may make a token", args, n)
		}
	}
}

// TestTokensOfOthers notices a token that acts for another user than was asked for, and a list that
// does not say which tokens are good.
func TestTokensOfOthers(t *testing.T) {
	a := threeControllers(t)
	at := &api.Time{Time: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	token := api.APIToken{ID: "00112233aabb", User: "ci", By: "ann", Scope: trust.ScopeRead, State: "expired", Created: at,
		Expires: at}
	a.Give("POST /v1/tokens", api.CreatedToken{APIToken: token, Token: "rota-api.x"})
	a.Give("GET /v1/tokens", api.List[api.APIToken]{Items: []api.APIToken{token}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("token", "create", "-u", "ci", "--scope", "read", "--days", "365", "--utc")
	if got.Code != 0 || got.Stdout != "rota-api.x\n" || got.Stderr != "rota: token 00112233aabb of ci, scope read, "+
		"valid until 2026-11-20T08:00:00Z: it is not shown again\n" {
		t.Errorf("%+v", got)
	}
	if asked := a.Requests(); asked[0].Body != `{"user":"ci","scope":"read","days":365}` {
		t.Errorf("asked %+v", asked)
	}
	var created api.CreatedToken
	got = s.Run("token", "create", "-o", "json", "--days", "1")
	if err := json.Unmarshal([]byte(got.Stdout), &created); err != nil || created.Token != "rota-api.x" {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	got = s.Run("token", "list", "--utc")
	if got.Code != 0 || !strings.HasSuffix(got.Stdout, "\n00112233aabb -    ci   read  expired 2026-11-20T08:00:00Z "+
		"2026-11-20T08:00:00Z ann\n") {
		t.Errorf("%+v", got)
	}
	var list api.List[api.APIToken]
	got = s.Run("token", "list", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	before := len(a.Requests())
	for args, want := range map[string]string{"token create --scope everything": "--scope everything: must be one of",
		"token list --scope read": "--scope", "token list --days 3": "--days", "token list --name x": "--name",
		"token revoke 00112233aabb --user ci": "--user", "token create --days 1e3": "--days 1e3: not a whole number"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage || !strings.Contains(got.Stderr, want) {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	if got := len(a.Requests()); got != before {
		t.Errorf("a wrong command line asked %d times", got-before)
	}
}

// TestRefusalsOfTokens notices a refusal that a script takes for a token.
func TestRefusalsOfTokens(t *testing.T) {
	a := threeControllers(t)
	a.Refuse("POST /v1/tokens", denied)
	a.Refuse("GET /v1/tokens", denied)
	a.Refuse("POST /v1/tokens/00112233aabb/revoke", denied)
	a.Give("POST /v1/tokens/ffffffffffff/revoke", api.APIToken{})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for _, args := range []string{"token create", "token list"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Denied || got.Stdout != "" ||
			got.Stderr != "rota: only admins may do this\n  hint: ask an admin\n" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	got := s.Run("token", "revoke", "00112233aabb", "ffffffffffff")
	if got.Code != exit.Denied || got.Stdout != "1 revoked\n" ||
		got.Stderr != "rota: API token 00112233aabb: only admins may do this\n  hint: ask an admin\n" {
		t.Errorf("%+v", got)
	}
}

// TestOperatorsWithoutAController notices a command that takes silence for success.
func TestOperatorsWithoutAController(t *testing.T) {
	s := rotatest.Session{Commands: Commands, T: t, Addr: "unix:/nowhere/rota.sock",
		ClientOptions: api.Options{Unreachable: time.Nanosecond}}
	for _, args := range []string{"node drain n1 --reason x", "node resume n1", "cluster", "cluster remove c1",
		"cluster revoke node/n1", "cluster join-token", "check", "token create", "token list", "token revoke 00112233aabb"} {
		got := s.Run(strings.Fields(args)...)
		if got.Code != exit.Unreachable || got.Stdout != "" ||
			!strings.Contains(got.Stderr, "no controller reachable at unix:/nowhere/rota.sock") ||
			!strings.Contains(got.Stderr, "hint: check that a controller is running, and that ROTA_ADDR") {
			t.Errorf("rota %s: %+v", args, got)
		}
		bad := rotatest.Session{Commands: Commands, T: t, Addr: "ftp://host"}
		if got := bad.Run(strings.Fields(args)...); got.Code != exit.Usage || got.Stdout != "" ||
			!strings.Contains(got.Stderr, "ftp://host") {
			t.Errorf("rota %s with a bad address: %+v", args, got)
		}
	}
}

// TestNodesThatCannotBeRead notices a list of nodes of which the readable part is drained.
func TestNodesThatCannotBeRead(t *testing.T) {
	a := threeControllers(t)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("node", "drain", "gpu01", "gpu[3-1]", "--reason", "fan")
	if got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, "gpu[3-1]") ||
		!strings.Contains(got.Stderr, "hint: separate names by commas, or write ranges in brackets") ||
		len(a.Requests()) > 0 {
		t.Errorf("%+v, asked %+v", got, a.Requests())
	}
}

// TestWhatOperatorsMayComplete notices names of other things, and tokens that are no longer good.
func TestWhatOperatorsMayComplete(t *testing.T) {
	a := threeControllers(t)
	a.Give("GET /v1/tokens", api.List[api.APIToken]{Items: []api.APIToken{{ID: "00112233aabb", Name: "ci", State: "valid"},
		{ID: "ffffffffffff", Name: "old", State: "revoked"}}})
	commands := func() []*command.Command { return append(Commands(), manual.Commands(Commands())...) }
	for line, want := range map[string]string{
		"cluster ":              "backup|join-token|remove|revoke|rotate-authority|rotate-key",
		"cluster remove ":       "c1|c2\tleader|c3\tunreachable",
		"cluster --role l":      "login",
		"token ":                "create|list|revoke",
		"token revoke ":         "00112233aabb\tci",
		"token create --scope ": "all|read|submit",
	} {
		for _, addr := range []string{a.URL, "unix:/nowhere"} {
			s := rotatest.Session{Commands: commands, T: t, Addr: addr, ClientOptions: api.Options{Unreachable: time.Nanosecond}}
			got := s.Run(append([]string{"complete", "fish", "--"}, strings.Split(line, " ")...)...)
			words := strings.Split(strings.TrimSpace(got.Stdout), "\n")
			slices.Sort(words)
			fixed := strings.Count(line, " ") == 1 || strings.Contains(line, "--")
			expected := want
			if addr != a.URL && !fixed {
				expected = ""
			}
			if strings.Join(words, "|") != expected || got.Code != 0 || got.Stderr != "" {
				t.Errorf("%q at %s: %+v, want %s", line, addr, got, expected)
			}
		}
	}
}
