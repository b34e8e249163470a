package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// passToNode passes a request of the caller on to the node of a job, by ctx.
func (h *Handlers) passToNode(x *exchange.Exchange,
	ctx context.Context, id model.JobID, node, method, path string, body []byte, stream bool,
) (*http.Response, error) {
	n, _ := h.Replica.View().Node(node)
	if n == nil || n.Addr == "" {
		return nil, problem.NotFound("job %d is on node %s, which is no longer in the cluster", id, node)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+n.Addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	identity.Vouch(req.Header, x.Caller.User)
	if stream {
		api.RequestStream(req)
	}
	resp, err := h.doAtNode(x, n, req)
	if err != nil {
		return nil, &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
			Detail: fmt.Sprintf("job %d is on node %s, which does not answer: %v", id, node, err),
			Hint: "`rota nodes` shows whether the node is down: if only its daemon is down, the job keeps running, and this " +
				"works again once the daemon is back"}
	}
	return resp, nil
}

// streamFromNode has the node of a job answer a request by a stream, and passes that on to the client.
func (h *Handlers) streamFromNode(x *exchange.Exchange, id model.JobID, node, path string, body any) error {
	if !api.AsksForStream(x.Request) {
		return problem.Invalid("this answer is a stream: send the headers Connection: Upgrade and Upgrade: rota-stream")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.Context(), streamTimeout) // for the head of the answer
	defer cancel()
	resp, err := h.passToNode(x, ctx, id, node, http.MethodPost, path, text, true)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.Record(nil) // what a person does there follows
		return x.PassStream(resp)
	}
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what was read of the reason is shown
	if resp.StatusCode == http.StatusConflict {
		return problem.WrongState("job %d: %s", id, refusalText(resp.Status, reason))
	}
	return &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
		Detail: fmt.Sprintf("node %s: %s", node, refusalText(resp.Status, reason))}
}

// streamFromWorker passes a request for a stream on to the node of a worker, of a job in one of some
// states.
func (h *Handlers) streamFromWorker(x *exchange.Exchange, verb string, worker int, req any,
	states ...model.JobState) (any, error) {
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	if j.Children != nil {
		return nil, problem.Invalid("job %d runs nothing itself: name one of its members, such as %s", j.ID, memberName(j))
	}
	a := j.Live()
	if a == nil || !slices.Contains(states, j.State) {
		if !j.State.Final() && x.MaybeBehind() {
			return nil, x.Forward()
		}
		return nil, problem.WrongState("job %d is %s, not running", j.ID, present.StateNames[j.State])
	}
	if worker < 0 || worker >= len(a.Workers) {
		return nil, problem.NotFound("job %d has no worker %d: it has %d, from 0", j.ID, worker, len(a.Workers))
	}
	x.About.AddJobs([]model.JobID{j.ID})
	return nil, h.streamFromNode(x, j.ID, a.Workers[worker].Node, "/v1/"+verb+"/"+workerPath(j.ID, a.N, worker), req)
}

// workerPath names a worker in the routes of nodes.
func workerPath(id model.JobID, attempt, worker int) string {
	return fmt.Sprintf("%d.%d.%d", id, attempt, worker)
}

// refusalText is the reason that a node gives for refusing a request.
func refusalText(status string, body []byte) string {
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return status + ": " + strings.TrimSpace(string(body))
}

// askNode asks a node for the caller, and makes sure that it is that node which answers.
func (h *Handlers) askNode(x *exchange.Exchange, ctx context.Context, n *model.Node, path string) (*http.Response,
	error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+n.Addr+path, nil)
	if err != nil {
		return nil, err
	}
	identity.Vouch(req.Header, x.Caller.User)
	return h.doAtNode(x, n, req)
}

// doAtNode sends a request to a node, and makes sure that the node answers.
func (h *Handlers) doAtNode(x *exchange.Exchange, n *model.Node, req *http.Request) (*http.Response, error) {
	resp, err := h.Nodes.Do(req)
	if err != nil {
		return nil, err
	}
	if m, err := h.Credential.Verify(resp.TLS); err != nil || m.Name != n.Name {
		resp.Body.Close()
		return nil, fmt.Errorf("at %s %s answered instead of node %s", n.Addr, m, n.Name)
	}
	return resp, nil
}

// streamTimeout is how long a node may take to begin a stream.
const streamTimeout = 10 * time.Second
