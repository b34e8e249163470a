package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// plainSignals are those that may be sent to the processes of a job. SIGKILL is not among them: a job
// is ended by a cancellation, which the log keeps.
var plainSignals = strings.Fields(`SIGHUP SIGINT SIGQUIT SIGABRT SIGUSR1 SIGUSR2 SIGALRM SIGTERM SIGCONT SIGSTOP
	SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGWINCH`)

// How a signal is sent to nodes.
const (
	signalTimeout = 10 * time.Second // that one node may take; it asks a process beside it
	signalsAtOnce = 16               // requests to nodes under way, for one request of a user
)

// SignalJob answers POST /v1/jobs/{id}/signal: it asks the nodes of a job to pass a signal on to its
// processes, once. Nothing of it is kept. For an array it does so for all tasks that run.
func (h *Handlers) SignalJob(x *exchange.Exchange, req *api.SignalRequest) (*api.ControlResponse, error) {
	if !slices.Contains(plainSignals, req.Signal) {
		return nil, problem.Invalid("signal %q: write one of %s; to end a job, cancel it", req.Signal,
			strings.Join(plainSignals, ", "))
	}
	if !slices.Contains([]string{"", jobspec.SignalScript, jobspec.SignalPrograms}, req.To) {
		return nil, problem.Invalid("to %q: write %s or %s, or leave it out", req.To, jobspec.SignalScript,
			jobspec.SignalPrograms)
	}
	r, err := x.JobRef()
	if err != nil {
		return nil, err
	}
	if r.Job == nil {
		return nil, problem.NotFound("unknown job %s", r.Text)
	}
	resp := &api.ControlResponse{Items: []api.ControlItem{}}
	var last *model.Job // that does not run
	for id := range r.Spans().All() {
		j := x.View.Job(model.JobID(id))
		if j == nil || j.Children != nil {
			continue
		}
		if j.Live() == nil {
			last = j
			continue
		}
		item := api.ControlItem{ID: j.ID}
		if err := h.signalWorkers(x, j, req); err != nil {
			item.Error = problem.Filled(problem.Of(err))
		}
		resp.Items = append(resp.Items, item)
		x.About.AddJobs([]model.JobID{j.ID})
	}
	_, single := r.One()
	switch {
	case len(resp.Items) == 0 && last != nil && single && r.Job.Children == nil:
		return nil, problem.WrongState("job %s is %s: it has no running processes to signal", r.Text,
			present.StateNames[last.State])
	case len(resp.Items) == 0:
		return nil, problem.WrongState("job %s has no running processes to signal", r.Text)
	case len(resp.Items) == 1 && resp.Items[0].Error != nil:
		return nil, resp.Items[0].Error
	}
	return resp, nil
}

// signalWorkers asks the nodes of all workers of a job that run what the signal is for. A worker that has
// ended before the others is no error.
func (h *Handlers) signalWorkers(x *exchange.Exchange, j *model.Job, req *api.SignalRequest) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	a := j.Live()
	errs := make([]error, len(a.Workers))
	var group sync.WaitGroup
	places := make(chan struct{}, signalsAtOnce)
	for i := range a.Workers {
		if _, number := j.PartOf(i); req.To == jobspec.SignalScript && number > 0 &&
			j.Spec.Groups[j.GroupOf(i)].RunsSteps() { // it holds room for steps
			errs[i] = problem.WrongState("worker %d of job %d runs no script", i, j.ID)
			continue
		}
		places <- struct{}{}
		group.Go(func() {
			errs[i] = h.signalWorker(x, j.ID, a.N, i, a.Workers[i].Node, body)
			<-places
		})
	}
	group.Wait()
	told := slices.Contains(errs, nil)
	for _, err := range errs {
		var p *api.Problem
		if err != nil && !(told && errors.As(err, &p) && p.Code == api.CodeWrongState) {
			return err
		}
	}
	return nil
}

func (h *Handlers) signalWorker(x *exchange.Exchange, id model.JobID, attempt, worker int, node string,
	body []byte) error {
	ctx, cancel := context.WithTimeout(x.Context(), signalTimeout)
	defer cancel()
	resp, err := h.passToNode(x, ctx, id, node, http.MethodPost, "/v1/signal/"+workerPath(id, attempt, worker), body,
		false)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what was read of the reason is shown
	switch resp.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusConflict:
		return problem.WrongState("job %d: %s", id, refusalText(resp.Status, b))
	}
	return &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
		Detail: fmt.Sprintf("node %s: %s", node, refusalText(resp.Status, b))}
}
