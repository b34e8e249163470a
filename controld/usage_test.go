package controld

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
)

// TestUsageOfARunningJob shows that a node is asked what a job uses while it runs, and that an answer
// which cannot be true, or none, is said.
func TestUsageOfARunningJob(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	answer := api.NodeUsage{Usage: model.Usage{CPUMS: 1500, SystemMS: 500, PeakMemory: 7 << 20}, Memory: 5 << 20,
		Steps: []api.NodeStepUsage{{Step: 2, Usage: model.Usage{CPUMS: 700}}, {Step: 0, Usage: model.Usage{CPUMS: 500,
			PeakMemory: 3 << 20}}}}
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/usage/1.1.0" || !strings.Contains(r.Header.Get("Rota-User"), "1000") {
			t.Errorf("asked for %s by %s", r.URL.Path, r.Header.Get("Rota-User"))
		}
		if answer.Memory == 0 {
			api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, "worker 1.1.0 does not run here")
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	listener.TLS = machineOf(t, s.addrs.HTTP, pki.Node, "n1").Server(pki.Controller)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.node.Addr = strings.TrimPrefix(listener.URL, "https://")
	n.hold = make(chan struct{})
	n.run(t.Context())
	if _, err := c.Submit(t.Context(), "", job("works")); err != nil {
		t.Fatal(err)
	}
	waitState(t, c, 1, model.Running)
	u, _, err := c.UsageBy(t.Context(), "1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if !u.Live || u.Missing != 0 || len(u.Workers) != 1 || u.Workers[0].MemoryNow != 5<<20 || u.Usage == nil ||
		u.Usage.CPUSeconds != 1.5 || u.Usage.UserCPU() != 1 || u.Usage.MaxRSS() != 7<<20 || u.Usage.AveRSS() != 7<<20 {
		t.Errorf("it uses %+v", u)
	}
	if len(u.Steps) != 2 || u.Steps[0].Step != 0 || u.Steps[0].PeakNode != "n1" || u.Steps[0].Usage.MaxRSS() != 3<<20 ||
		u.Steps[1].Step != 2 || u.Steps[1].Usage.CPUSeconds != 0.7 {
		t.Errorf("its steps use %+v", u.Steps)
	}
	answer.SystemMS = 2000
	if u, _, err := c.UsageBy(t.Context(), "1", 1); err != nil || u.Missing != 1 || u.Usage != nil ||
		u.Error != "worker 0 on node n1: its answer is impossible" {
		t.Errorf("of nonsense: %+v, %v", u, err)
	}
	answer.Memory = 0
	if u, _, err := c.UsageBy(t.Context(), "1", 1); err != nil ||
		u.Error != "worker 0 on node n1: worker 1.1.0 does not run here" {
		t.Errorf("of a worker that is not there: %+v, %v", u, err)
	}
	listener.Close()
	if u, _, err := c.UsageBy(t.Context(), "1", 1); err != nil || u.Missing != 1 || u.Usage != nil {
		t.Errorf("of a node that does not answer: %+v, %v", u, err)
	}
	_, _, err = c.UsageBy(t.Context(), "1", 2)
	wantProblem(t, err, api.CodeNotFound)
	close(n.hold)
	waitState(t, c, 1, model.Completed)
	if u, _, err := c.UsageBy(t.Context(), "1", 0); err != nil || u.Live || u.Missing != 0 || len(u.Workers) != 1 {
		t.Errorf("after its end: %+v, %v", u, err)
	}
}
