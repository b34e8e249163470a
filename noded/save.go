package noded

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// save has the processes of a worker saved that is to go on elsewhere. Its exit record says when that
// is done. If they cannot be saved, it gets its signal, for which part of its grace is kept.
func (a *Agent) save(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	dir, err := "", errors.New("this node does not save processes: it has no CRIU")
	if a.Criu.Path != "" && a.Checkpoints != nil {
		dir, err = a.orderSave(ctx, id, f)
	}
	switch {
	case err == nil:
		return func(w *worker) { w.Save.Dir = dir }, nil // until its status says more
	case a.isStopping(), f.Tries < saveTries:
		return nil, err
	}
	return func(w *worker) { w.NotSaved = reconcile.Message(err) }, nil
}

func (a *Agent) orderSave(ctx context.Context, id container.ID, f reconcile.Facts) (dir string, err error) {
	if dir, err = a.Checkpoints.NewImage(id); err != nil {
		return "", err
	}
	within := time.Until(f.KillAt) * 3 / 4
	if within < time.Millisecond {
		return "", errors.New("no time is left for it")
	}
	return dir, a.Runtime.Save(ctx, id, container.SaveOrder{Dir: dir, Criu: a.Criu, WithinMS: within.Milliseconds()})
}

// saveTries is how often it is tried to have a container saved before its job is asked to leave.
const saveTries = 3
