package relay

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhatANodeIsAskedOfSteps notices a request for one route that reaches the node as another one,
// which not every caller of the first may use.
func TestWhatANodeIsAskedOfSteps(t *testing.T) {
	verbs := map[string]string{} // by the path of a request; "": it is refused
	mux := http.NewServeMux()
	for _, rt := range new(Handlers).Routes() {
		mux.HandleFunc(rt.Method+" "+rt.Path, func(_ http.ResponseWriter, r *http.Request) {
			x := exchange.New(nil, &rt, nil, r)
			verbs[r.URL.EscapedPath()], _ = stepVerb(x)
		})
	}
	for path, want := range map[string]string{
		"/v1/jobs/7/steps":                                "",
		"/v1/jobs/7/steps/3/signal":                       "/3/signal",
		"/v1/jobs/7/steps/03/attach":                      "/3/attach",
		"/v1/jobs/7/steps/3%2Fattach%3F/signal":           "",
		"/v1/jobs/7/steps/3%2Fattach%23/signal":           "",
		"/v1/jobs/7/steps/%2E%2E%2F3%2Fattach%3F/signal":  "",
		"/v1/jobs/7%2Fsteps%2F3%2Fattach%3F/steps/signal": "",
		"/v1/jobs/x%2Fsteps%2Fy/steps/4/signal":           "/4/signal",
		"/v1/jobs/7/steps/-1/signal":                      "",
	} {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, nil))
		if verbs[path] != want {
			t.Errorf("%s asks the node for %q, not %q", path, verbs[path], want)
		}
	}
}

// TestWhichWorkerStartsSteps notices a request that goes to a worker which starts none.
func TestWhichWorkerStartsSteps(t *testing.T) {
	plain := jobspec.Group{Count: 9, Tasks: []jobspec.Task{{}}}
	steps := jobspec.Group{Count: 9, Tasks: []jobspec.Task{{Launch: &jobspec.Launch{Type: jobspec.LaunchSteps}}}}
	both := []model.Part{{Group: 0, Workers: 2}, {Group: 1, Workers: 2}}
	for _, c := range []struct {
		groups []jobspec.Group
		parts  []model.Part
		want   int // -1: none
	}{
		{groups: []jobspec.Group{steps}, want: 0},
		{groups: []jobspec.Group{plain}, want: -1},
		// the numbers of workers are those of the attempt, and not of the specification
		{groups: []jobspec.Group{plain, steps}, parts: both, want: 2},
		{groups: []jobspec.Group{plain, plain}, parts: both, want: -1},
		{groups: []jobspec.Group{plain, steps}, parts: []model.Part{{Group: 1, Workers: 4}}, want: 0},
	} {
		j := &model.Job{ID: 7, State: model.Running, Spec: &jobspec.Job{Groups: c.groups}, Parts: c.parts,
			Attempts: []model.Attempt{{N: 1, Workers: make([]model.Worker, 4)}}}
		_, got, err := starterOf(j)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%d groups, parts %+v: worker %d, %v, not %d", len(c.groups), c.parts, got, err, c.want)
		}
	}
}
