package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// nodeSteps is the route of a node's daemon at which it takes requests for steps.
const nodeSteps = "/v1/job-steps/"

// jobSteps answers requests for the steps of a job by passing them on to the node of the worker that
// starts them.
func jobSteps(x *exchange) (any, error) {
	j, err := x.findJob()
	if err != nil {
		return nil, err
	}
	a, worker, err := starterOf(j)
	if err != nil {
		return nil, err
	}
	name := a.Workers[worker].Node
	n, _ := x.view.Node(name)
	if n == nil || n.Addr == "" {
		return nil, problem.WrongState("job %d has lost its node %s", j.ID, name)
	}
	_, rest, _ := strings.Cut(x.r.URL.Path, "/steps")
	u := fmt.Sprintf("https://%s%s%d.%d.%d%s", n.Addr, nodeSteps, j.ID, a.N, worker, rest)
	req, err := http.NewRequestWithContext(x.s.alive, x.r.Method, u, x.r.Body)
	if err != nil {
		return nil, err
	}
	if api.AsksForStream(x.r) {
		api.RequestStream(req)
	}
	identity.Vouch(req.Header, x.caller.User)
	resp, err := x.s.Nodes.Do(req)
	if err == nil {
		if m, bad := x.s.Credential.Verify(resp.TLS); bad != nil || m.Name != n.Name {
			resp.Body.Close()
			err = fmt.Errorf("at %s answers %s and not node %s", n.Addr, m, n.Name)
		}
	}
	if err != nil {
		return nil, &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
			Detail: fmt.Sprintf("the steps of job %d are on node %s, which does not answer: %v", j.ID, name, err)}
	}
	defer resp.Body.Close()
	x.headers()
	x.sent = true
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if err := api.PassStream(x.s.alive, x.w, resp); err != nil {
			x.s.Log.Debug("a stream of a step could not be passed on", "error", err)
		}
		return nil, nil
	}
	x.w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	x.w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(x.w, io.LimitReader(resp.Body, stepListMax)) // the client may be gone
	return nil, nil
}

// stepListMax is how many bytes of an answer are passed on that is no stream.
const stepListMax = 16 << 20

// starterOf returns the worker that starts the steps of a job, in the attempt that runs.
func starterOf(j *model.Job) (*model.Attempt, int, error) {
	if j.Children != nil {
		return nil, 0, problem.Invalid("job %d runs nothing itself: name one of its members, such as %s", j.ID, memberName(j))
	}
	if j.State.Final() {
		return nil, 0, problem.WrongState("job %d has ended: it runs no steps any more", j.ID)
	}
	a := j.Live()
	if a == nil || len(a.Workers) == 0 {
		return nil, 0, problem.WrongState("job %d does not run: it has no nodes for steps", j.ID)
	}
	for i := range a.Workers {
		if j.Spec.Groups[j.GroupOf(i)].RunsSteps() {
			return a, i, nil
		}
	}
	return nil, 0, problem.WrongState("job %d runs no steps: its launch type is not steps", j.ID)
}
