package run

import (
	"context"
	"errors"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/checkpoint"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// prepare makes the folder of a worker's checkpoint, if need be by a copy from another node. When it
// cannot be made, the worker cannot be launched. A copy that is ended because the worker is to stop
// decides nothing.
func (r *Runner) prepare(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	err := errors.New("this node keeps no checkpoints")
	if r.Checkpoints != nil {
		owner, unknown := r.Bundles.Owner(f.Desired)
		if unknown != nil {
			return nil, unknown // it is tried again: nothing is wrong with the job
		}
		user := container.User{UID: owner.UID, GID: owner.GID}
		err = r.Checkpoints.Prepare(ctx, checkpoint.Worker{ID: id, User: user, Submitted: f.Desired.Submitted},
			f.Desired.Checkpoint)
	}
	switch {
	case err == nil:
		return func(w *reconcile.Facts) { w.Prepared = true }, nil
	case r.Stopping():
		return nil, err
	case ctx.Err() != nil:
		return nil, nil
	}
	r.logOf(id).Warn("cannot make the folder of a checkpoint", "err", err)
	return r.recordResult(ctx, id, f, model.WorkerReport{State: model.WorkerFailed, Message: reconcile.Message(err)})
}
