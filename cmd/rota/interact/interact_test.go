package interact

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// TestExecOnANodeThatIsDown: the error says which node does not answer and what to do, and comes at once.
func TestExecOnANodeThatIsDown(t *testing.T) {
	a := rotatest.NewAnswers(t)
	for _, route := range []string{"exec", "attach"} {
		a.Refuse("POST /v1/jobs/7/"+route, api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
			Detail: "job 7 is on node n1, which does not answer: no route to host",
			Hint:   "`rota nodes` shows whether the node is down"})
	}
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	for _, line := range []string{"exec 7 -- true", "shell 7"} {
		got := s.Run(strings.Fields(line)...)
		if got.Code == 0 || got.Code == exit.Usage || got.Stdout != "" ||
			!strings.Contains(got.Stderr, "job 7 is on node n1, which does not answer") ||
			!strings.Contains(got.Stderr, "`rota nodes` shows whether the node is down") {
			t.Errorf("rota %s: %+v", line, got)
		}
	}
	if n := len(a.Requests()); n != 2 {
		t.Errorf("it was asked %d times", n)
	}
}
