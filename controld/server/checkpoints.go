package server

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// mayCopyCheckpoint answers GET /v1/nodes/{name}/checkpoints/{id}: may the node in the query copy
// the folder? It may if it runs the worker next that left the folder, and has not begun.
func mayCopyCheckpoint(x *exchange) (*api.CheckpointCopy, error) {
	n, err := x.checkpointsOf(x.query.Get("boot_id"))
	if err != nil {
		return nil, err
	}
	id, to := x.r.PathValue("id"), x.query.Get("for")
	job, attempt, worker, ok := parseFolder(id)
	if !ok {
		return nil, problem.Invalid("%q names no folder: write job.attempt.worker", id)
	}
	if j := x.view.Job(job); j != nil {
		a := j.Live()
		from := present.Checkpoint(x.view, j, worker)
		if from != nil && from.Node == n.Name && from.Attempt == attempt && worker < len(a.Workers) &&
			a.Workers[worker].Node == to && a.Workers[worker].Started == 0 && !a.Workers[worker].State.Final() {
			return &api.CheckpointCopy{Attempt: a.N, Submitted: j.Submitted.Wall}, nil
		}
	}
	return nil, problem.Denied("node %q is not to go on with folder %s of node %s", to, id, n.Name)
}

// dropCheckpoints answers POST /v1/nodes/{name}/checkpoints.
func dropCheckpoints(x *exchange, req *api.KeptCheckpoints) (*api.DroppedCheckpoints, error) {
	if len(req.IDs) > maxReports {
		return nil, problem.Invalid("%d folders, at most %d are allowed", len(req.IDs), maxReports)
	}
	n, err := x.checkpointsOf(req.BootID)
	if err != nil {
		return nil, err
	}
	out := &api.DroppedCheckpoints{IDs: []string{}}
	for _, id := range req.IDs {
		job, attempt, worker, ok := parseFolder(id)
		if !ok {
			return nil, problem.Invalid("%q names no folder: write job.attempt.worker", id)
		}
		known, err := x.knowsAttempt(job, attempt)
		if err != nil {
			return nil, err
		}
		if j := x.view.Job(job); !known {
			out.Unknown = append(out.Unknown, id)
		} else if j == nil || !j.NeedsFolder(attempt, worker, n.Name) {
			out.IDs = append(out.IDs, id)
		}
	}
	return out, nil
}

// knowsAttempt reports whether the state, or the history behind it, is at least as new as an
// attempt. Only then can it say that the attempt's folder is not needed.
func (x *exchange) knowsAttempt(job model.JobID, attempt int) (bool, error) {
	if j := x.view.Job(job); j != nil {
		return attempt <= j.Attempt, nil
	}
	if job > x.view.LastJob() || x.view.Recovery().Newer(job) {
		return false, nil
	}
	j, err := x.s.History.Get(x.ctx(), job)
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
func (x *exchange) checkpointsOf(bootID string) (*model.Node, error) {
	if err := x.s.Replica.Verify(x.ctx()); err != nil {
		return nil, err
	}
	x.view = x.s.Replica.View()
	return x.nodeThatFollows(bootID)
}

// parseFolder reads job.attempt.worker.
func parseFolder(id string) (job model.JobID, attempt, worker int, ok bool) {
	n, err := fmt.Sscanf(id, "%d.%d.%d", &job, &attempt, &worker)
	return job, attempt, worker, err == nil && n == 3 && worker >= 0 && id == fmt.Sprintf("%d.%d.%d", job, attempt, worker)
}
