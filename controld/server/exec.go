package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// streamTimeout is how long a node may take to begin a stream.
const streamTimeout = 10 * time.Second

// execJob answers POST /v1/jobs/{id}/exec: the node of a worker starts a process in its container.
func execJob(x *exchange) (any, error) {
	var req api.ExecRequest
	if err := x.decode(&req); err != nil {
		return nil, err
	}
	if len(req.Argv) > 0 && req.Argv[0] == "" {
		return nil, problem.Invalid("argv: the first word, which names the program, is empty")
	}
	return x.streamFromWorker("exec", req.Worker, req, model.Running)
}

// attachJob answers POST /v1/jobs/{id}/attach: it goes on with the terminal of a job.
func attachJob(x *exchange) (any, error) {
	var req api.AttachRequest
	if err := x.decode(&req); err != nil {
		return nil, err
	}
	if req.From != nil && *req.From < 0 {
		return nil, problem.Invalid("from: must not be below 0")
	}
	return x.streamFromWorker("attach", req.Worker, req, model.Running, model.Suspended, model.Completing)
}

// streamFromWorker passes a request for a stream on to the node of a worker, of a job in one of some
// states.
func (x *exchange) streamFromWorker(verb string, worker int, req any, states ...model.JobState) (any, error) {
	j, err := x.findJob()
	if err != nil {
		return nil, err
	}
	if j.Children != nil {
		return nil, problem.Invalid("job %d runs nothing itself: name one of its members, such as %s", j.ID, memberName(j))
	}
	a := j.Live()
	if a == nil || !slices.Contains(states, j.State) {
		if !j.State.Final() && x.maybeBehind() {
			return nil, x.forward()
		}
		return nil, problem.WrongState("job %d is %s: this is for one that runs", j.ID, present.StateNames[j.State])
	}
	if worker < 0 || worker >= len(a.Workers) {
		return nil, problem.NotFound("job %d has no worker %d: it has %d, from 0", j.ID, worker, len(a.Workers))
	}
	x.about.ofJobs([]model.JobID{j.ID})
	return nil, x.streamFromNode(j.ID, a.Workers[worker].Node, "/v1/"+verb+"/"+workerPath(j.ID, a.N, worker), req)
}

// maybeBehind reports whether this replica may miss what the leader knows, which can be asked.
func (x *exchange) maybeBehind() bool {
	return !x.s.Replica.Leading() && x.r.Header.Get(headerForwarded) == ""
}

// workerPath names a worker in the routes of nodes.
func workerPath(id model.JobID, attempt, worker int) string {
	return fmt.Sprintf("%d.%d.%d", id, attempt, worker)
}

// passToNode passes a request of the caller on to the node of a job, by ctx.
func (x *exchange) passToNode(
	ctx context.Context, id model.JobID, node, method, path string, body []byte, stream bool,
) (*http.Response, error) {
	n, _ := x.s.Replica.View().Node(node)
	if n == nil || n.Addr == "" {
		return nil, problem.NotFound("job %d is on node %s, which is not in the cluster any more", id, node)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+n.Addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	identity.Vouch(req.Header, x.caller.User)
	if stream {
		api.RequestStream(req)
	}
	resp, err := x.doAtNode(n, req)
	if err != nil {
		return nil, &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
			Detail: fmt.Sprintf("job %d is on node %s, which does not answer: %v", id, node, err),
			Hint: "`rota nodes` says whether it is down: if only its daemon is, the job goes on, and this works when it " +
				"is back"}
	}
	return resp, nil
}

// streamFromNode has the node of a job answer a request by a stream, and passes that on to the client.
func (x *exchange) streamFromNode(id model.JobID, node, path string, body any) error {
	if !api.AsksForStream(x.r) {
		return problem.Invalid("this answer is a stream: send the headers Connection: Upgrade and Upgrade: rota-stream")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.ctx(), streamTimeout) // for the head of the answer
	defer cancel()
	resp, err := x.passToNode(ctx, id, node, http.MethodPost, path, text, true)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.record(nil) // what a person does there follows
		return x.passStream(resp)
	}
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what was read of the reason is shown
	if resp.StatusCode == http.StatusConflict {
		return problem.WrongState("job %d: %s", id, refusalText(resp.Status, reason))
	}
	return &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
		Detail: fmt.Sprintf("node %s: %s", node, refusalText(resp.Status, reason))}
}

// passStream passes the stream of another daemon on to the client. It ends with the stream, with
// this daemon, or when the caller's credential lapses.
func (x *exchange) passStream(resp *http.Response) error {
	x.headers()
	x.sent = true
	ctx, cancel := x.whileCredentialHolds(x.s.alive)
	defer cancel()
	return api.PassStream(ctx, x.w, resp)
}
