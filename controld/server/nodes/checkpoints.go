package nodes

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// mayCopyCheckpoint answers GET /v1/nodes/{name}/checkpoints/{id}: may the node in the query copy
// the folder? It may if it runs the worker next that left the folder, and has not begun.
func (h *Handlers) mayCopyCheckpoint(x *exchange.Exchange) (*api.CheckpointCopy, error) {
	n, err := h.checkpointsOf(x, x.Query.Get("boot_id"))
	if err != nil {
		return nil, err
	}
	id, to := x.Request.PathValue("id"), x.Query.Get("for")
	job, attempt, worker, ok := parseFolder(id)
	if !ok {
		return nil, problem.Invalid("%q is not a folder: write job.attempt.worker", id)
	}
	if j := x.View.Job(job); j != nil {
		a := j.Live()
		from := present.Checkpoint(x.View, j, worker)
		if from != nil && from.Node == n.Name && from.Attempt == attempt && worker < len(a.Workers) &&
			a.Workers[worker].Node == to && a.Workers[worker].Started == 0 && !a.Workers[worker].State.Final() {
			return &api.CheckpointCopy{Attempt: a.N, Submitted: j.Submitted.Wall}, nil
		}
	}
	return nil, problem.Denied("node %q does not continue the work of folder %s of node %s", to, id, n.Name)
}

// dropCheckpoints answers POST /v1/nodes/{name}/checkpoints.
func (h *Handlers) dropCheckpoints(x *exchange.Exchange, req *api.KeptCheckpoints) (*api.DroppedCheckpoints, error) {
	if len(req.IDs) > maxReports {
		return nil, problem.Invalid("%d folders, at most %d are allowed", len(req.IDs), maxReports)
	}
	n, err := h.checkpointsOf(x, req.BootID)
	if err != nil {
		return nil, err
	}
	out := &api.DroppedCheckpoints{IDs: []string{}}
	for _, id := range req.IDs {
		job, attempt, worker, ok := parseFolder(id)
		if !ok {
			return nil, problem.Invalid("%q is not a folder: write job.attempt.worker", id)
		}
		known, err := h.knowsAttempt(x, job, attempt)
		if err != nil {
			return nil, err
		}
		if j := x.View.Job(job); !known {
			out.Unknown = append(out.Unknown, id)
		} else if j == nil || !j.NeedsFolder(attempt, worker, n.Name) {
			out.IDs = append(out.IDs, id)
		}
	}
	return out, nil
}

// knowsAttempt reports whether the state, or the history behind it, is at least as new as an
// attempt. Only then can it say that the attempt's folder is not needed.
func (h *Handlers) knowsAttempt(x *exchange.Exchange, job model.JobID, attempt int) (bool, error) {
	if j := x.View.Job(job); j != nil {
		return attempt <= j.Attempt, nil
	}
	if job > x.View.LastJob() || x.View.Recovery().Newer(job) {
		return false, nil
	}
	j, err := h.History.Get(x.Context(), job)
	switch {
	case errors.Is(err, history.ErrNoJob):
		return false, nil
	case err != nil:
		return false, err
	}
	return attempt <= j.Attempt, nil
}

// checkpointsOf returns the node that asks. An old leader must not answer it: it would not know of
// what runs now.
func (h *Handlers) checkpointsOf(x *exchange.Exchange, bootID string) (*model.Node, error) {
	if err := h.Replica.Verify(x.Context()); err != nil {
		return nil, err
	}
	x.View = h.Replica.View()
	return h.nodeThatFollows(x, bootID)
}

// parseFolder reads job.attempt.worker.
func parseFolder(id string) (job model.JobID, attempt, worker int, ok bool) {
	n, err := fmt.Sscanf(id, "%d.%d.%d", &job, &attempt, &worker)
	return job, attempt, worker, err == nil && n == 3 && worker >= 0 && id == fmt.Sprintf("%d.%d.%d", job, attempt, worker)
}
