package noded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/checkpoint"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// prepare makes the folder of a worker's checkpoint, if need be by a copy from another node. When it
// cannot be made, the worker cannot be launched. A copy that is ended because the worker is to stop
// decides nothing.
func (a *Agent) prepare(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	err := errors.New("this node keeps no checkpoints")
	if a.Checkpoints != nil {
		owner, unknown := a.Bundles.Owner(f.Desired)
		if unknown != nil {
			return nil, unknown // it is tried again: nothing is wrong with the job
		}
		user := container.User{UID: owner.UID, GID: owner.GID}
		err = a.Checkpoints.Prepare(ctx, checkpoint.Worker{ID: id, User: user, Submitted: f.Desired.Submitted},
			f.Desired.Checkpoint)
	}
	switch {
	case err == nil:
		return func(w *worker) { w.Prepared = true }, nil
	case a.isStopping():
		return nil, err
	case ctx.Err() != nil:
		return nil, nil
	}
	a.logOf(id).Warn("cannot make the folder of a checkpoint", "err", err)
	return a.recordResult(ctx, id, f, model.WorkerReport{State: model.WorkerFailed, Message: reconcile.Message(err)})
}

const (
	sweepCheckpointsEvery = time.Minute     // between two questions which folders are needed
	askAgain              = 2 * time.Second // after no answer, as at the start of a daemon
	askTimeout            = 15 * time.Second
	askAtOnce             = 10_000 // folders in one question; the controllers take twice as many
)

// sweepCheckpoints removes folders that no attempt needs any more, until ctx ends.
func (a *Agent) sweepCheckpoints(ctx context.Context) error {
	if a.Checkpoints == nil {
		return nil
	}
	for {
		again := sweepCheckpointsEvery
		if ids := a.Checkpoints.List(); len(ids) > 0 || len(a.kept.list()) > 0 {
			if err := a.dropCheckpoints(ctx, ids); err != nil {
				again = askAgain
				a.logRetry(ctx, "cannot ask which checkpoints are needed: all are kept", err, again)
			}
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// dropCheckpoints asks about these folders and removes those that are not needed. Without an answer
// nothing is removed, nor is a folder of what is here.
func (a *Agent) dropCheckpoints(ctx context.Context, ids []container.ID) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := a.keepUnknown(nil, ids); err != nil {
		return err
	}
	ids = slices.DeleteFunc(a.Checkpoints.List(), func(id container.ID) bool { return a.isHere(id) || a.kept.has(id) })
	for part := range slices.Chunk(ids, askAtOnce) {
		req := api.KeptCheckpoints{BootID: a.Node.BootID}
		for _, id := range part {
			req.IDs = append(req.IDs, id.String())
		}
		answer, err := a.Control.DropCheckpoints(ctx, a.Node.Name, req)
		if err != nil {
			return err
		}
		if err := a.keepUnknown(answer.Unknown, a.Checkpoints.List()); err != nil {
			return err
		}
		for _, text := range answer.IDs {
			if id, ok := container.ParseID(text); ok && !a.isHere(id) {
				a.Checkpoints.Remove(id)
			}
		}
	}
	return nil
}

// isHere reports whether a folder is that of a worker here, or one that such a worker may begin with.
func (a *Agent) isHere(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, w := range a.workers {
		if other.Job == id.Job && other.Worker == id.Worker && (other.Attempt == id.Attempt || !w.Entry.Started) &&
			(w.Exists() || w.busy || w.Desired != nil) {
			return true
		}
	}
	return false
}

// runsStill reports whether an attempt of this worker has processes here, so that its folder may change,
// or that is not known yet.
func (a *Agent) runsStill(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.desiredKnown {
		return true // this daemon has just started
	}
	for other, w := range a.workers {
		if other.Job == id.Job && other.Worker == id.Worker && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}
