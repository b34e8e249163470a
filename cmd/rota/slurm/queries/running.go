package queries

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
)

// stepRef names a step of a job, or of tasks of an array.
type stepRef struct {
	of selection
	id string // "": all steps
}

// names reports whether the row describes this step.
func (s *stepRef) names(r *fields.JobRow) bool {
	if s.id != "" && r.StepID() != s.id {
		return false
	}
	if len(s.of.tasks) > 0 {
		return r.Array.Index != nil && s.of.tasks[r.Array.Job][*r.Array.Index]
	}
	return slices.Contains(s.of.refs, show.ID(r.ID)) || slices.Contains(s.of.refs, show.ID(r.Array.Job))
}

// Limits for queries of running steps: each job needs a request to one of its nodes.
const (
	maxAsked   = 100
	askedOnce  = 16
	askingTime = 10 * time.Second
)

// askRunning fetches the running steps of jobs. Steps of other users' jobs are left out.
func askRunning(ctx context.Context, t *tool.Tool, s *command.Session, rows []*fields.JobRow) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *fields.JobRow) bool {
		return r.Code.Final() || r.Started == nil || len(r.Nodes) == 0
	})
	if len(rows) > maxAsked {
		t.Errorf("%d jobs are running, and the running steps of at most %d jobs are shown: name jobs, or leave out the "+
			"steps", len(rows),
			maxAsked)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	var all sync.WaitGroup
	places, errs := make(chan struct{}, askedOnce), make([]error, len(rows))
	for i, r := range rows {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			list, err := s.StepsBy(ctx, show.ID(r.ID))
			if err != nil {
				errs[i] = err
				return
			}
			r.Running = slices.DeleteFunc(list.Items, func(one api.StepStatus) bool { return one.Waits != "" })
		})
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil || hasNoSteps(err):
		case tool.IsUnreachable(err):
			return tool.LoadFailure(err)
		default:
			t.Errorf("the running steps of job %s are unknown: %s", rows[i].FullID(), show.Clean(tool.AsSlurm(err).Error()))
		}
	}
	return nil
}

// hasNoSteps reports whether the error means that the job has ended, runs no steps, or belongs to
// another user.
func hasNoSteps(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) &&
		slices.Contains([]string{api.CodeNotFound, api.CodeWrongState, api.CodeDenied}, p.Code)
}
