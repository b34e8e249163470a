package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

func TestTokenCommands(t *testing.T) {
	a := rotatest.NewAnswers(t)
	at := &api.Time{Time: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	one := api.APIToken{ID: "00112233aabb", Name: "ci", User: "ann", By: "ann", Scope: "submit", State: "valid",
		Created: at, Expires: at}
	text := api.NewBearerToken(nil).Text()
	a.Give("POST /v1/tokens", api.CreatedToken{APIToken: one, Token: text})
	a.Give("GET /v1/tokens", api.List[api.APIToken]{Items: []api.APIToken{one}})
	a.Give("POST /v1/tokens/00112233aabb/revoke", one)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("token", "create", "--name", "ci", "--days", "30", "--utc")
	if got.Code != 0 || got.Stdout != text+"\n" || !strings.Contains(got.Stderr, "it is not shown again") ||
		strings.Contains(got.Stderr, text) {
		t.Errorf("%+v", got)
	}
	if asked := a.Requests(); asked[0].Body != `{"name":"ci","scope":"submit","days":30}` {
		t.Errorf("%+v", asked)
	}
	got = s.Run("token", "list", "--user", "ann", "--utc")
	want := "ID           NAME USER SCOPE  STATE CREATED              EXPIRES              BY\n" +
		"00112233aabb ci   ann  submit valid 2026-11-20T08:00:00Z 2026-11-20T08:00:00Z ann\n"
	if got.Code != 0 || got.Stdout != want {
		t.Errorf("%+v, want\n%s", got, want)
	}
	if asked := a.Requests(); asked[len(asked)-1].What != "GET /v1/tokens?user=ann" {
		t.Errorf("%+v", asked)
	}
	if got := s.Run("token", "revoke", "00112233aabb"); got.Code != 0 || got.Stdout != "1 revoked\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"token", "token create x", "token list x", "token revoke", "token make",
		"token create --days 366", "token create --days 0", "token create --scope="} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestATokenThatIsBrokenIsNotShown: a token with a line break in it, or with another fault, is
// refused. The message does not repeat it, and nothing is sent.
func TestATokenThatIsBrokenIsNotShown(t *testing.T) {
	a := rotatest.NewAnswers(t)
	text := api.NewBearerToken(nil).Text()
	for _, broken := range []string{text[:30] + "\n" + text[30:], "rota-api.secret", text[:30]} {
		for _, s := range []rotatest.Session{
			{Commands: Commands, T: t, Addr: a.URL, Env: []string{"ROTA_TOKEN=" + broken}},
			{Commands: Commands, T: t, Addr: a.URL},
		} {
			args := []string{"check"}
			if len(s.Env) == 0 {
				args = append(args, "--token", broken)
			}
			got := s.Run(args...)
			if got.Code != exit.Usage || strings.Contains(got.Stderr, broken[:14]) ||
				!strings.Contains(got.Stderr, "ROTA_TOKEN") {
				t.Errorf("%+v", got)
			}
		}
	}
	if asked := a.Requests(); len(asked) > 0 {
		t.Errorf("%+v", asked)
	}
}
