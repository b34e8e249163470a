package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// nodeSteps is the route of a node's daemon at which it takes requests for steps.
const nodeSteps = "/v1/job-steps/"

// jobSteps answers requests for the steps of a job by passing them on to the node of the worker that
// starts them.
func (h *Handlers) jobSteps(x *exchange.Exchange) (any, error) {
	verb, err := stepVerb(x)
	if err != nil {
		return nil, err
	}
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	a, worker, err := starterOf(j)
	if err != nil {
		if j.Children == nil && !j.State.Final() && x.MaybeBehind() {
			return nil, x.Forward()
		}
		return nil, err
	}
	x.About.AddJobs([]model.JobID{j.ID})
	body, err := x.Body()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(x.Context(), streamTimeout) // for the answer, or the head of a stream
	defer cancel()
	resp, err := h.passToNode(x, ctx, j.ID, a.Workers[worker].Node, x.Request.Method,
		nodeSteps+workerPath(j.ID, a.N, worker)+verb, body, api.AsksForStream(x.Request))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.Record(nil) // what a person does there follows
		return nil, x.PassStream(resp)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		p := &api.Problem{}
		if err := json.NewDecoder(io.LimitReader(resp.Body, stepListMax)).Decode(p); err != nil || p.Status == 0 {
			return nil, &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
				Detail: fmt.Sprintf("node %s answers %s", a.Workers[worker].Node, resp.Status)}
		}
		return nil, p
	}
	x.Headers()
	x.Sent = true
	x.Writer.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	x.Writer.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(x.Writer, io.LimitReader(resp.Body, stepListMax)) // the client may be gone
	return nil, nil
}

// stepListMax is how many bytes of an answer are passed on that is no stream.
const stepListMax = 16 << 20

// stepVerb returns what the node is asked behind its worker: what the route says, with the number of
// the step. Nothing else of the request's path reaches the node, which asks for no rights of a caller.
func stepVerb(x *exchange.Exchange) (string, error) {
	_, verb, _ := strings.Cut(x.Route.Path, "/steps")
	const variable = "{step}"
	if !strings.Contains(verb, variable) {
		return verb, nil
	}
	n, err := strconv.Atoi(x.Request.PathValue("step"))
	if err != nil || n < 0 {
		return "", problem.Invalid("step %q: write the number of a step, from 0", x.Request.PathValue("step"))
	}
	return strings.Replace(verb, variable, strconv.Itoa(n), 1), nil
}

// starterOf returns the worker that starts the steps of a job, in the attempt that runs.
func starterOf(j *model.Job) (*model.Attempt, int, error) {
	if j.Children != nil {
		return nil, 0, problem.Invalid("job %d runs nothing itself: name one of its members, such as %s", j.ID, memberName(j))
	}
	if j.State.Final() {
		return nil, 0, problem.WrongState("job %d has ended: it can run no more steps", j.ID)
	}
	a := j.Live()
	if a == nil || len(a.Workers) == 0 {
		return nil, 0, problem.WrongState("job %d does not run: it has no nodes for steps", j.ID)
	}
	for worker := range a.Workers {
		if _, number := j.PartOf(worker); number == 0 && j.Spec.Groups[j.GroupOf(worker)].RunsSteps() {
			return a, worker, nil
		}
	}
	return nil, 0, problem.WrongState("job %d runs no steps: its launch type is not steps", j.ID)
}
