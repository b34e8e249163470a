package run

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// save has the processes of a worker saved that is to go on elsewhere. Its exit record says when that
// is done. If they cannot be saved, it gets its signal, for which part of its grace is kept.
func (r *Runner) save(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	dir, err := "", errors.New("this node does not save processes: it has no CRIU")
	if r.Criu.Path != "" && r.Checkpoints != nil {
		dir, err = r.orderSave(ctx, id, f)
	}
	switch {
	case err == nil:
		return func(w *reconcile.Facts) { w.Save.Dir = dir }, nil // until its status says more
	case r.Stopping(), f.Tries < saveTries:
		return nil, err
	}
	return func(w *reconcile.Facts) { w.NotSaved = reconcile.Message(err) }, nil
}

func (r *Runner) orderSave(ctx context.Context, id container.ID, f *reconcile.Facts) (dir string, err error) {
	if dir, err = r.Checkpoints.NewImage(id); err != nil {
		return "", err
	}
	within := time.Until(f.KillAt) * 3 / 4
	if within < time.Millisecond {
		return "", errors.New("there is no time left to save it")
	}
	return dir, r.Runtime.Save(ctx, id, container.SaveOrder{Dir: dir, Criu: r.Criu, WithinMS: within.Milliseconds()})
}

// saveTries is how often it is tried to have a container saved before its job is asked to leave.
const saveTries = 3
