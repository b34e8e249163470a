package admin

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

func TestCheckFails(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/check", api.Check{Index: 9, Violations: []string{"A3: gang 4 is half assigned"}})
	got := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}.Run("check")
	if got.Code != exit.Failed || got.Stdout != "A3: gang 4 is half assigned\n" ||
		!strings.Contains(got.Stderr, "1 invariant does not hold") {
		t.Errorf("%+v", got)
	}
}

func TestNodeDrain(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/nodes/n1/drain", api.Node{Name: "n1"})
	a.Refuse("POST /v1/nodes/n2/resume", api.Problem{Status: 404, Code: api.CodeNotFound,
		Detail: "unknown node \"n2\""})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	if got := s.Run("node", "drain", "n1", "--reason", "fan"); got.Code != 0 || got.Stdout != "1 drained\n" {
		t.Errorf("%+v", got)
	}
	if asked := a.Requests(); asked[0].Body != `{"reason":"fan"}` {
		t.Errorf("%+v", asked)
	}
	if got := s.Run("node", "resume", "n2"); got.Code != exit.NotFound ||
		!strings.HasPrefix(got.Stderr, "rota: unknown node \"n2\"") {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"node", "node drain", "node drain n1", "node burn n1"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}
