package views

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

func TestStaleAnswersAreMarked(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderStale, "12")
		rotatest.StreamOf(nil)(w, r)
	})
	if got := (rotatest.Session{Commands: groups, T: t, Addr: a.URL}).Run("queue"); got.Code != 0 ||
		!strings.Contains(got.Stderr, "12s") {
		t.Errorf("%+v", got)
	}
}
