package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// ErrNoCores says that an action waits for cores of another container.
var ErrNoCores = errors.New("its cores are not free yet")

// create writes the intent to the journal and creates the container. An error becomes the worker's
// result: whether and where to try again is decided by the controllers.
func (r *Runner) create(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	if err := r.GPUs.CheckHealthy(f.Desired.GPUs); err != nil {
		return r.recordResult(ctx, id, f, model.WorkerReport{State: model.WorkerFailed, Message: reconcile.Message(err)})
	}
	if port, err := takenPort(f.Desired); err != nil {
		return r.recordResult(ctx, id, f,
			model.WorkerReport{State: model.WorkerFailed, Message: reconcile.Message(err), PortTaken: port})
	}
	if _, err := r.Bundles.Owner(f.Desired); err != nil {
		return nil, err // it is tried again: nothing is wrong with the job
	}
	cores, err := r.takeCores(f)
	if err != nil {
		return nil, err
	}
	if !f.Journaled {
		if err := r.Journal.Append(journal.Record{Op: journal.Intend, ID: id.String(), Cores: cores}); err != nil {
			r.releaseCores(cores)
			return nil, err
		}
	}
	known := func(w *reconcile.Facts) { w.Journaled, w.Entry.ID, w.Entry.Cores = true, id.String(), cores }
	dir, err := r.Bundles.Build(ctx, id, f.Desired, cores, r.GPUs.All())
	if err == nil {
		r.OpenSocket(id)
		err = r.Runtime.Create(ctx, id, dir, r.LeaseEnd(f.Desired))
	}
	if err == nil {
		return func(w *reconcile.Facts) { known(w); w.Advance(container.Created) }, nil
	}
	if ctx.Err() != nil && r.Stopping() {
		return known, err // this daemon is stopping, so that the error says nothing about the container
	}
	r.logOf(id).Warn("cannot create container", "err", err)
	done, ferr := r.recordResult(ctx, id, f, model.WorkerReport{State: model.WorkerFailed,
		Message: reconcile.Message(err), Final: container.IsFinal(err)})
	if ferr == nil {
		r.cleanUpFailed(ctx, id)
	}
	return func(w *reconcile.Facts) {
		known(w)
		if done != nil {
			done(w)
		}
	}, ferr
}

// takenPort checks whether another program listens at a port that a worker was given. The worker
// must not find out itself, because its failure would count as the user's.
func takenPort(d *api.Alloc) (int, error) {
	ports := []int{d.Port}
	if d.Worker == 0 {
		ports = append(ports, d.MasterPort)
	}
	for _, port := range ports {
		if port == 0 {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return port, fmt.Errorf("port %d, chosen as MASTER_PORT, is in use on this node: the next attempt gets another "+
				"port", port)
		}
		if err == nil {
			l.Close()
		}
	}
	return 0, nil
}

// cleanUpFailed removes the files of a failed launch. If a container exists after all, the next
// inspection finds it, and it is killed and removed.
func (r *Runner) cleanUpFailed(ctx context.Context, id container.ID) {
	err := r.Places.Clear(ctx, id)
	if err != nil && !errors.Is(err, container.ErrLive) && !r.Stopping() {
		r.logOf(id).Warn("cannot remove the remains of a failed launch", "err", err)
	}
}

// takeCores takes free cores for a worker, or returns those that the journal has for it.
func (r *Runner) takeCores(f *reconcile.Facts) ([]int, error) {
	if r.Cores == nil {
		return nil, nil
	}
	if f.Journaled {
		return f.Entry.Cores, nil
	}
	cores := r.Cores.Take(int(f.Desired.Request.Active.Cores), r.GPUs.NUMANode(f.Desired.GPUs))
	if cores == nil {
		return nil, ErrNoCores
	}
	return cores, nil
}

func (r *Runner) releaseCores(cores []int) {
	if r.Cores != nil {
		r.Cores.Release(cores)
	}
}
