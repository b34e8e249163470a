package admin

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// TestConfirmDead: one request for all nodes, and a line for each that says what becomes of its jobs.
func TestConfirmDead(t *testing.T) {
	a := rotatest.NewAnswers(t)
	since := api.At(model.UnixMS(1_700_000_000_000))
	a.Give("POST /v1/nodes/confirm-dead", api.ConfirmedDead{Items: []api.DeadNode{
		{Name: "n1", Since: since, Jobs: []model.JobID{4, 7}}, {Name: "n2", Since: since, Jobs: []model.JobID{9}},
		{Name: "n3", Since: since},
	}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("node", "confirm-dead", "n[1-3]", "--reason", "burnt", "--utc")
	want := "n1 is confirmed dead, down since 2023-11-14T22:13:20Z; 2 jobs leave it at once: 4,7\n" +
		"n2 is confirmed dead, down since 2023-11-14T22:13:20Z; 1 job leaves it at once: 9\n" +
		"n3 is confirmed dead, down since 2023-11-14T22:13:20Z; it had no jobs\n" +
		""
	if got.Code != 0 || got.Stdout != want {
		t.Errorf("%+v, want\n%s", got, want)
	}
	if asked := a.Requests(); len(asked) != 1 || asked[0].Body != `{"nodes":["n1","n2","n3"],"reason":"burnt"}` {
		t.Errorf("asked %+v", asked)
	}
	if got := s.Run("node", "confirm-dead", "n1", "--dry-run"); !strings.Contains(got.Stdout,
		"n1 would be confirmed dead") || !strings.Contains(got.Stdout, "2 jobs would leave it at once: 4,7") {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"node confirm-dead", "node drain n1 --reason fan --dry-run"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}
