package noded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// act carries out one action, without holding the mutex. The function it returns applies the changes to
// the worker. After an error the action is repeated.
func (a *Agent) act(ctx context.Context, id container.ID, f reconcile.Facts, s reconcile.Action) (func(*worker), error) {
	if s.Kind == reconcile.Fetch {
		return a.prepare(ctx, id, f) // it takes as long as the copy makes progress
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	switch s.Kind {
	case reconcile.Create:
		return a.create(ctx, id, f)
	case reconcile.Start:
		return a.start(ctx, id, f)
	case reconcile.Stop:
		return a.stop(ctx, id, f)
	case reconcile.Save:
		return a.save(ctx, id, f)
	case reconcile.Early:
		return a.tellEarly(ctx, id, f)
	case reconcile.Warn:
		return a.warn(id, f)
	case reconcile.Evict:
		return a.evict(id, f)
	case reconcile.Kill:
		return nil, a.Runtime.Kill(ctx, id)
	case reconcile.Tell:
		return a.tellSteps(ctx, id, f)
	case reconcile.Leave:
		return nil, a.Runtime.Signal(ctx, id, container.Signal{Number: int(syscall.SIGTERM)})
	case reconcile.Switch:
		return a.switchTo(ctx, id, f)
	case reconcile.Yield:
		return a.yield(id, f)
	case reconcile.Finish:
		done, err := a.recordResult(ctx, id, f, s.Result)
		if err == nil && f.Actual == "" {
			a.cleanUpFailed(ctx, id)
		}
		return done, err
	case reconcile.Remove:
		return a.remove(ctx, id)
	case reconcile.Forget:
		return a.forget(ctx, id, f)
	}
	return nil, fmt.Errorf("unknown action %q", s.Kind)
}

var errNoCores = errors.New("its cores are not free yet")

// create writes the intent to the journal and creates the container. An error becomes the worker's
// result: whether and where to try again is decided by the controllers.
func (a *Agent) create(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	if err := a.gpus.CheckHealthy(f.Desired.GPUs); err != nil {
		return a.recordResult(ctx, id, f, model.WorkerReport{State: model.WorkerFailed, Message: reconcile.Message(err)})
	}
	if port, err := takenPort(f.Desired); err != nil {
		return a.recordResult(ctx, id, f,
			model.WorkerReport{State: model.WorkerFailed, Message: reconcile.Message(err), PortTaken: port})
	}
	if _, err := a.Bundles.Owner(f.Desired); err != nil {
		return nil, err // it is tried again: nothing is wrong with the job
	}
	cores, err := a.takeCores(f)
	if err != nil {
		return nil, err
	}
	if !f.Journaled {
		if err := a.Journal.Append(journal.Record{Op: journal.Intend, ID: id.String(), Cores: cores}); err != nil {
			a.releaseCores(cores)
			return nil, err
		}
	}
	known := func(w *worker) { w.Journaled, w.Entry.ID, w.Entry.Cores = true, id.String(), cores }
	dir, err := a.Bundles.Build(ctx, id, f.Desired, cores, a.gpus.All())
	if err == nil {
		a.openSocket(id)
		err = a.Runtime.Create(ctx, id, dir, a.leaseEnd(f.Desired))
	}
	if err == nil {
		return func(w *worker) { known(w); w.Advance(container.Created) }, nil
	}
	if ctx.Err() != nil && a.isStopping() {
		return known, err // this daemon is stopping, so that the error says nothing about the container
	}
	a.logOf(id).Warn("cannot create container", "err", err)
	done, ferr := a.recordResult(ctx, id, f, model.WorkerReport{State: model.WorkerFailed,
		Message: reconcile.Message(err), Final: container.IsFinal(err)})
	if ferr == nil {
		a.cleanUpFailed(ctx, id)
	}
	return func(w *worker) {
		known(w)
		if done != nil {
			done(w)
		}
	}, ferr
}

// takenPort looks whether something else listens at a port that a worker was given, before the worker
// finds out: its failure would count as the user's.
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
			return port, fmt.Errorf("port %d, at which its workers were to meet, is taken on this node: the next attempt gets "+
				"another one", port)
		}
		if err == nil {
			l.Close()
		}
	}
	return 0, nil
}

// cleanUpFailed removes what a failed launch has left on disk. If a container exists after all, the
// next inspection finds it, and it is killed and removed.
func (a *Agent) cleanUpFailed(ctx context.Context, id container.ID) {
	a.closeSocket(id)
	err := errors.Join(a.Bundles.Retire(id), a.Runtime.Remove(ctx, id))
	if err != nil && !errors.Is(err, container.ErrLive) && !a.isStopping() {
		a.logOf(id).Warn("cannot remove what is left of a failed launch", "err", err)
	}
}

func (a *Agent) isStopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ctx.Err() != nil
}

// leaseEnd returns when the lease of a container of an allocation ends that is created now; the zero
// time if it has none.
func (a *Agent) leaseEnd(of *api.Alloc) time.Time {
	if of.NoLease {
		return time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.end()
}

// start starts the command of a container. The journal is written first: a container that may have
// been started is never created again.
func (a *Agent) start(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	if err := a.Journal.Append(journal.Record{Op: journal.Started, ID: id.String()}); err != nil {
		return nil, err
	}
	started := func(w *worker) { w.Entry.Started = true }
	if err := a.Runtime.Start(ctx, id); err != nil {
		return started, err // its shim may be slow: the attempt has not failed while the container may run
	}
	return func(w *worker) { started(w); w.Advance(container.Running) }, nil
}

// stop carries out the first part of a stop: it writes the notice that tells the job why it has to
// end, and sends the signal. A stronger cause writes a new notice, and sends its signal if that is
// another one. A daemon that is killed before the journal is written repeats both: that does no
// harm, while a job without notice would lose work. The kill at the deadline is reconcile.Kill.
func (a *Agent) stop(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	s := f.Desired.Stop
	if why := cmp.Or(f.NotSaved, f.Save.Problem); why != "" && f.Entry.Stopped == "" {
		a.logOf(id).Warn("the processes of a job cannot be saved; it is asked to leave", "why", why)
	}
	n := container.Notice{
		Reason: noticeReason(s.Cause), Deadline: f.KillAt.UTC().Format(time.RFC3339Nano), Attempt: id.Attempt,
		Signal: s.Signal,
	}
	if err := a.Bundles.Notice(id, n); err != nil {
		// The signal matters more than the notice.
		a.logOf(id).Error("cannot write notice", "err", err)
	}
	if f.Entry.Stopped == "" || f.Entry.Signal != s.Signal {
		if err := a.signalStop(ctx, id, f); err != nil {
			return nil, err
		}
	}
	stopped := journal.Record{Op: journal.Stopped, ID: id.String(), Cause: s.Cause, Signal: s.Signal}
	if err := a.Journal.Append(stopped); err != nil {
		a.logOf(id).Error("cannot write to the journal that a signal was sent", "err", err)
	}
	return func(w *worker) { w.Entry.Stopped, w.Entry.Signal = s.Cause, s.Signal }, nil
}

// signalStop sends the signal of a stop to a worker, and to the steps beside it. A worker that only holds
// their room leaves when they have ended.
func (a *Agent) signalStop(ctx context.Context, id container.ID, f reconcile.Facts) error {
	var errs []error
	if !f.Desired.Holds() {
		errs = append(errs, a.Runtime.Signal(ctx, id, stopSignal(f.Desired)))
	}
	if stopsSteps(f.Desired) {
		errs = append(errs, a.signalSteps(ctx, id, stopSignal(f.Desired)))
	}
	return errors.Join(errs...)
}

// noticeReason returns the reason in the notice file for a cause.
func noticeReason(c model.Cause) string {
	switch c {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseRequeue:
		return "preempt"
	case model.CauseCancelled:
		return "cancel"
	}
	return string(c)
}

// recordResult writes the result of a container to the journal. From then on its cores are free.
// Before that its GPUs are checked for processes that are left on them.
func (a *Agent) recordResult(
	ctx context.Context, id container.ID, f reconcile.Facts, r model.WorkerReport,
) (func(*worker), error) {
	r.Job, r.Attempt, r.Worker = model.JobID(id.Job), id.Attempt, id.Worker
	a.finishSteps(ctx, id)
	r.Usage = a.usageOf(id, f)
	if f.Desired != nil && f.Entry.Started {
		for _, n := range f.Desired.GPUs {
			if !a.gpus.AwaitVacant(ctx, n) {
				a.registerNow(ctx)
			}
		}
		a.out.PutSamples(a.newProgress(id), false) // the last progress is reported with the end
		a.queueFindings(id)
		r.Total = a.reachedTotal(id, f.Desired)
	}
	if err := a.Journal.Append(journal.Record{Op: journal.Final, ID: id.String(), Final: &r}); err != nil {
		return nil, err
	}
	if e, ok := a.Journal.Entry(id.String()); ok && e.Final != nil {
		r = *e.Final // the first result stands, even if writing it seemed to fail
	}
	return func(w *worker) {
		a.releaseCores(w.Entry.Cores)
		w.Journaled, w.Entry.ID, w.Entry.Cores, w.Entry.Final = true, id.String(), nil, &r
	}, nil
}

// reachedTotal reports whether a worker has reported the last of the steps that its job says it has.
func (a *Agent) reachedTotal(id container.ID, d *api.Alloc) bool {
	total := d.Spec.Watched(d.Group).Total
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id]
	return total > 0 && w != nil && w.step >= total
}

// remove removes all of an ended container but its log.
func (a *Agent) remove(ctx context.Context, id container.ID) (func(*worker), error) {
	a.closeSocket(id)
	if err := errors.Join(a.removeSteps(ctx, id), a.Bundles.Retire(id)); err != nil {
		return nil, err
	}
	if err := a.Runtime.Remove(ctx, id); err != nil {
		return nil, err
	}
	return func(w *worker) { w.Actual = "" }, nil
}

// forget removes an intent whose container was never created, or what is left of a kept one.
func (a *Agent) forget(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	if err := errors.Join(a.removeSteps(ctx, id), a.Bundles.Retire(id), a.Runtime.Remove(ctx, id)); err != nil {
		return nil, err
	}
	if err := a.Journal.Append(journal.Record{Op: journal.Forget, ID: id.String()}); err != nil {
		return nil, err
	}
	if f.Entry.Final == nil {
		a.releaseCores(f.Entry.Cores)
	}
	return func(w *worker) { w.Journaled, w.Entry = false, journal.Entry{} }, nil
}

// takeCores takes free cores for a worker, or returns those that the journal has for it.
func (a *Agent) takeCores(f reconcile.Facts) ([]int, error) {
	if a.Cores == nil {
		return nil, nil
	}
	if f.Journaled {
		return f.Entry.Cores, nil
	}
	cores := a.Cores.Take(int(f.Desired.Request.Active.Cores), a.gpus.NUMANode(f.Desired.GPUs))
	if cores == nil {
		return nil, errNoCores
	}
	return cores, nil
}

func (a *Agent) releaseCores(cores []int) {
	if a.Cores != nil {
		a.Cores.Release(cores)
	}
}
