package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

const (
	// usagePatience is how long a node may take to say what a worker uses: it reads a few small files.
	usagePatience = 2 * time.Second
	// usageAtOnce is how many workers are asked about at a time.
	usageAtOnce = 32
)

// getUsage answers GET /v1/jobs/{id}/usage: what has been recorded of workers that have ended, and
// what the nodes say of those that run.
func (h *Handlers) getUsage(x *exchange.Exchange) (*api.JobUsage, error) {
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	n := int(x.Number("attempt", int64(j.Attempt)))
	a := attemptOf(j, n)
	out := &api.JobUsage{APIVersion: api.Version, Kind: "JobUsage", Job: j.ID, Attempt: n, Workers: []api.WorkerUsage{},
		Steps: []api.StepUsage{}, Allocation: j.Spec.Meta[jobspec.MetaAllocation] != ""}
	switch {
	case a == nil && n != 0:
		return nil, problem.NotFound("job %d has no attempt %d, or it is no longer kept", j.ID, n)
	case a == nil: // it has not started, or runs nothing itself
		return out, nil
	}
	out.Live = a.Ended.At == 0
	live, errs := h.liveUsage(x, j.ID, a)
	var sum model.UsageSum
	for i := range a.Workers {
		w := &a.Workers[i]
		line := api.WorkerUsage{Worker: i, Node: w.Node, State: string(w.State)}
		used := w.Usage
		if live[i] != nil {
			used, line.MemoryNow = &live[i].Usage, live[i].Memory
		}
		if errs[i] != nil {
			out.Missing++
			if out.Error == "" {
				out.Error = fmt.Sprintf("worker %d on node %s: %v", i, w.Node, errs[i])
			}
		}
		if used != nil {
			gpus := max(len(w.GPUs), len(w.Had))
			sum.Add(used, gpus)
			var one model.UsageSum
			one.Add(used, gpus)
			line.Usage = present.Usage(&one)
		}
		out.Workers = append(out.Workers, line)
	}
	if sum.Workers > 0 {
		out.Usage = present.Usage(&sum)
	}
	out.Steps = usageOfSteps(a, live)
	return out, nil
}

// usageOfSteps adds up what nodes say of their parts of steps.
func usageOfSteps(a *model.Attempt, live []*api.NodeUsage) []api.StepUsage {
	sums, most := map[int]*model.UsageSum{}, map[int]jobspec.Bytes{}
	list := []api.StepUsage{}
	for i, u := range live {
		if u == nil {
			continue
		}
		for k := range u.Steps {
			part := &u.Steps[k]
			at := slices.IndexFunc(list, func(s api.StepUsage) bool { return s.Step == part.Step })
			if at < 0 {
				at, list, sums[part.Step] = len(list), append(list, api.StepUsage{Step: part.Step}), &model.UsageSum{}
			}
			sums[part.Step].Add(&part.Usage, part.GPUs)
			if list[at].PeakNode == "" || part.PeakMemory > most[part.Step] {
				list[at].PeakNode, most[part.Step] = a.Workers[i].Node, part.PeakMemory
			}
		}
	}
	for i := range list {
		list[i].Usage = present.Usage(sums[list[i].Step])
	}
	slices.SortFunc(list, func(a, b api.StepUsage) int { return a.Step - b.Step })
	return list
}

// attemptOf returns the attempt of a job with a number, nil if it is not known.
func attemptOf(j *model.Job, n int) *model.Attempt {
	for i := range j.Attempts {
		if j.Attempts[i].N == n {
			return &j.Attempts[i]
		}
	}
	return nil
}

// liveUsage asks the nodes for the usage of an attempt's running workers. It returns each node's
// answer, or the reason why there is none.
func (h *Handlers) liveUsage(x *exchange.Exchange, id model.JobID, a *model.Attempt) ([]*api.NodeUsage, []error) {
	found, errs := make([]*api.NodeUsage, len(a.Workers)), make([]error, len(a.Workers))
	var asking sync.WaitGroup
	slots := make(chan struct{}, usageAtOnce)
	for i := range a.Workers {
		if a.Ended.At != 0 || a.Workers[i].State != model.WorkerRunning {
			continue
		}
		slots <- struct{}{}
		asking.Go(func() {
			found[i], errs[i] = h.usageOf(x, a.Workers[i].Node, workerPath(id, a.N, i))
			<-slots
		})
	}
	asking.Wait()
	return found, errs
}

// usageOf asks a node what a worker there has used.
func (h *Handlers) usageOf(x *exchange.Exchange, node, worker string) (*api.NodeUsage, error) {
	n, _ := x.View.Node(node)
	if n == nil || n.Addr == "" {
		return nil, fmt.Errorf("it is no longer in the cluster")
	}
	ctx, cancel := context.WithTimeout(x.Context(), usagePatience)
	defer cancel()
	resp, err := h.askNode(x, ctx, n, "/v1/usage/"+worker)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what was read of the reason is shown
		return nil, errors.New(refusalText(resp.Status, b))
	}
	u := new(api.NodeUsage)
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(u); err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if !u.Possible() || u.Memory < 0 || slices.ContainsFunc(u.Steps, func(s api.NodeStepUsage) bool {
		return s.Step < 0 || s.GPUs < 0 || s.GPUs > jobspec.MaxGPUs || !s.Possible()
	}) {
		return nil, fmt.Errorf("its answer is impossible")
	}
	return u, nil
}
