package views

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

// TestEventFilters: several jobs and types may be asked for, and a type that there is not is no
// empty list.
func TestEventFilters(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/events", rotatest.List("EventList", api.Event{Index: 1, Job: 7, Type: "submitted"},
		api.Event{Index: 2, Job: 8, Type: "submitted"},
		api.Event{Index: 3, Job: 9, Type: "started"}, api.Event{Index: 4, Job: 7, Type: "finished"}))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for _, c := range []struct{ args, want string }{
		{"-j 7,9", "1 3 4"},
		{"-j 7,9 --type started,finished", "3 4"},
		{"--type submitted", "1 2"},
	} {
		got := s.Run(append(strings.Fields("events --no-header --columns index"), strings.Fields(c.args)...)...)
		if got.Code != 0 || strings.Join(strings.Fields(got.Stdout), " ") != c.want {
			t.Errorf("events %s: %+v", c.args, got)
		}
	}
	if got := s.Run("events", "--type", "begun"); got.Code != exit.Usage ||
		!strings.Contains(got.Stderr, "must be one of submitted, ") {
		t.Errorf("%+v", got)
	}
}
