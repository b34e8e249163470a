package controld

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestSignalsGoToNodes: a signal is passed on to the nodes of a job, and the log does not grow by it.
func TestSignalsGoToNodes(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	var mu sync.Mutex
	var got []string
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s %s of %s", r.Method, r.URL.Path, body, r.Header.Get("Rota-User")))
		switch {
		case strings.HasSuffix(r.URL.Path, ".1.1"): // of a gang: this worker has ended
			api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, "nothing runs")
		case strings.Contains(string(body), "SIGQUIT"):
			api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, "nothing at all runs")
		case strings.Contains(string(body), "SIGHUP"):
			http.Error(w, "it burns", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	listener.TLS = machineOf(t, s.addrs.HTTP, pki.Node, "n1").Server(pki.Controller)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.node.Addr = strings.TrimPrefix(listener.URL, "https://")
	n.hold = make(chan struct{})
	n.run(t.Context())

	gang, array, pending := job("gang"), job("array"), job("pending")
	gang.Groups[0].Count, gang.Groups[0].MaxWorkersPerNode = 2, 2
	array.Array = &jobspec.Array{Indices: "0-2"}
	pending.Hold = true
	ids, err := c.SubmitAll(t.Context(), "", []*jobspec.Job{gang, array, pending})
	if err != nil {
		t.Fatal(err)
	}
	waitState(t, c, ids[0], model.Running)
	for i := range 3 {
		waitState(t, c, ids[1]+model.JobID(i)+1, model.Running)
	}
	index := func() uint64 {
		cluster, _, err := c.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return cluster.Index
	}
	before := index()
	ref := func(i int) string { return fmt.Sprint(ids[i]) }
	usr1 := api.SignalRequest{Signal: "SIGUSR1", To: "programs"}
	for _, q := range []struct {
		ref   string
		req   api.SignalRequest
		items int    // of the answer
		code  string // of the refusal
	}{
		{ref(0), usr1, 1, ""}, {ref(1), usr1, 3, ""}, {ref(1) + "_1", usr1, 1, ""}, {ref(1) + "_[0,2]", usr1, 2, ""},
		{ref(2), usr1, 0, api.CodeWrongState}, {"99", usr1, 0, api.CodeNotFound}, {"x", usr1, 0, api.CodeInvalid},
		{ref(0), api.SignalRequest{Signal: "SIGKILL"}, 0, api.CodeInvalid},
		{ref(0), api.SignalRequest{Signal: "USR1"}, 0, api.CodeInvalid},
		{ref(0), api.SignalRequest{Signal: "SIGUSR1", To: "shell"}, 0, api.CodeInvalid},
		{ref(0), api.SignalRequest{Signal: "SIGQUIT"}, 0, api.CodeWrongState},
		{ref(0), api.SignalRequest{Signal: "SIGHUP"}, 0, api.CodeInternal},
	} {
		resp, err := c.Signal(t.Context(), q.ref, q.req)
		if q.code != "" {
			wantProblem(t, err, q.code)
			continue
		}
		if err != nil || len(resp.Items) != q.items {
			t.Errorf("%s to %s: %+v, %v", q.req.Signal, q.ref, resp, err)
		}
	}
	_, err = s.client(user(1001)).Signal(t.Context(), ref(0), usr1)
	wantProblem(t, err, api.CodeDenied)
	want := fmt.Sprintf("POST /v1/signal/%d.1.0 {\"signal\":\"SIGUSR1\",\"to\":\"programs\"} of u1000", ids[0])
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(got, want) || len(got) < 2+3+1+2 {
		t.Errorf("the node was asked for %q, not %q", got, want)
	}
	if after := index(); after != before {
		t.Errorf("the log has grown from %d to %d", before, after)
	}
}
