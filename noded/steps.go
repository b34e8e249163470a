package noded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// carry does one step, without the mutex. The function it returns tells the worker what has changed; an error means that the step
// is to be repeated.
func (a *Agent) runStep(ctx context.Context, id container.ID, f facts, s step) (func(*worker), error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	switch s.Op {
	case opCreate:
		return a.create(ctx, id, f)
	case opStart:
		return a.start(ctx, id, f)
	case opStop:
		return a.stop(ctx, id, f)
	case opKill:
		return nil, a.Runtime.Kill(ctx, id)
	case opFinish:
		done, err := a.recordResult(ctx, id, f, s.Result)
		if err == nil && f.Actual == "" {
			a.cleanUpFailed(ctx, id)
		}
		return done, err
	case opRemove:
		return a.remove(ctx, id)
	case opForget:
		return a.forget(ctx, id, f)
	}
	return nil, fmt.Errorf("unknown step %q", s.Op)
}

// startTries is how often a start is tried again before it is given up and the container killed.
const startTries = 3

var errNoCores = errors.New("its cores are not free yet")

// create writes the intent down and makes the container. What goes wrong is the worker's result: whether to try again, and where,
// is the controllers' business.
func (a *Agent) create(ctx context.Context, id container.ID, f facts) (func(*worker), error) {
	if err := a.checkGPUsHealthy(f.Desired.GPUs); err != nil {
		return a.recordResult(ctx, id, f, cluster.WorkerReport{State: cluster.WorkerFailed, Message: shortMessage(err)})
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
	dir, err := a.Bundles.Build(ctx, id, f.Desired, cores, a.allGPUs())
	if err == nil {
		err = a.Runtime.Create(ctx, id, dir, a.leaseEnd())
	}
	if err == nil {
		return func(w *worker) { known(w); w.advanceState(container.Created) }, nil
	}
	if ctx.Err() != nil && a.isStopping() {
		return known, err // this daemon is going down, which says nothing about the container
	}
	a.Log.Warn("cannot make container", "job", id.Job, "alloc", id.String(), "err", err)
	done, ferr := a.recordResult(ctx, id, f, cluster.WorkerReport{State: cluster.WorkerFailed, Message: shortMessage(err), Final: container.IsFinal(err)})
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

// clearFailed drops what a container that is not there, or an attempt to make one, has left on disk. If a container came of it after all, it is
// found by the next listing, killed and removed.
func (a *Agent) cleanUpFailed(ctx context.Context, id container.ID) {
	err := errors.Join(a.Bundles.Retire(id), a.Runtime.Remove(ctx, id))
	if err != nil && !errors.Is(err, container.ErrLive) && !a.isStopping() {
		a.Log.Warn("cannot remove what is left of a failed launch", "job", id.Job, "alloc", id.String(), "err", err)
	}
}

func (a *Agent) isStopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ctx.Err() != nil
}

func (a *Agent) leaseEnd() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.end()
}

// brief is an error as it is reported: whole in nearly every case, but bounded.
func shortMessage(err error) string {
	s := err.Error()
	if len(s) > messageMax {
		return s[:messageMax] + "…"
	}
	return s
}

// start lets the command begin. That it may have begun is written down first: after that it is never made again.
func (a *Agent) start(ctx context.Context, id container.ID, f facts) (func(*worker), error) {
	if err := a.Journal.Append(journal.Record{Op: journal.Started, ID: id.String()}); err != nil {
		return nil, err
	}
	started := func(w *worker) { w.Entry.Started = true }
	if err := a.Runtime.Start(ctx, id); err != nil {
		if f.Tries < startTries || a.isStopping() {
			return started, err
		}
		return a.recordResult(ctx, id, f, cluster.WorkerReport{State: cluster.WorkerFailed, Message: shortMessage(err)})
	}
	return func(w *worker) { started(w); w.advanceState(container.Running) }, nil
}

// goTo notes the state that a step has reached, unless the runtime has told of a later one meanwhile.
func (w *worker) advanceState(s container.State) {
	if stateOrder(s) > stateOrder(w.Actual) {
		w.Actual = s
	}
}

// stop tells the container why it has to go, and asks it to. Under a stronger cause it is told again, and gets another signal if that is one. A
// daemon that is killed before it has written that down does it again: a job that is told twice loses nothing, and one that is never told its work.
func (a *Agent) stop(ctx context.Context, id container.ID, f facts) (func(*worker), error) {
	s := f.Desired.Stop
	n := container.Notice{
		Reason: noticeReason(s.Cause), Deadline: f.KillAt.UTC().Format(time.RFC3339Nano), Attempt: id.Attempt, Signal: s.Signal,
	}
	if err := a.Bundles.Notice(id, n); err != nil {
		// The signal matters more than its explanation.
		a.Log.Error("cannot write notice", "job", id.Job, "alloc", id.String(), "err", err)
	}
	if f.Entry.Stopped == "" || f.Entry.Signal != s.Signal {
		if err := a.Runtime.Signal(ctx, id, container.SignalNumber(s.Signal)); err != nil {
			return nil, err
		}
	}
	if err := a.Journal.Append(journal.Record{Op: journal.Stopped, ID: id.String(), Cause: s.Cause, Signal: s.Signal}); err != nil {
		a.Log.Error("cannot write down that a signal was sent", "job", id.Job, "alloc", id.String(), "err", err)
	}
	return func(w *worker) { w.Entry.Stopped, w.Entry.Signal = s.Cause, s.Signal }, nil
}

// noticeReason is a cause in the words of the notice file.
func noticeReason(c cluster.Cause) string {
	switch c {
	case cluster.CauseTE, cluster.CauseReclaim, cluster.CauseOrder, cluster.CauseRequeue:
		return "preempt"
	case cluster.CauseCancelled:
		return "cancel"
	}
	return string(c)
}

// finish writes down what became of a container. Its cores are free from then on; its GPUs are looked at first.
func (a *Agent) recordResult(ctx context.Context, id container.ID, f facts, r cluster.WorkerReport) (func(*worker), error) {
	r.Job, r.Attempt, r.Worker = cluster.JobID(id.Job), id.Attempt, id.Worker
	if f.Desired != nil && f.Entry.Started {
		a.awaitVacantGPUs(ctx, f.Desired.GPUs)
		a.out.putSamples(a.newProgress(id)) // what it wrote last goes along with its end
		a.queueFindings(id)
	}
	if err := a.Journal.Append(journal.Record{Op: journal.Final, ID: id.String(), Final: &r}); err != nil {
		return nil, err
	}
	if e, ok := a.Journal.Entry(id.String()); ok && e.Final != nil {
		r = *e.Final // the first result stands, also when writing it down had seemed to fail
	}
	return func(w *worker) {
		a.releaseCores(w.Entry.Cores)
		w.Journaled, w.Entry.ID, w.Entry.Cores, w.Entry.Final = true, id.String(), nil, &r
	}, nil
}

// remove drops all of an ended container but its log.
func (a *Agent) remove(ctx context.Context, id container.ID) (func(*worker), error) {
	if err := a.Bundles.Retire(id); err != nil {
		return nil, err
	}
	if err := a.Runtime.Remove(ctx, id); err != nil {
		return nil, err
	}
	return func(w *worker) { w.Actual = "" }, nil
}

// forget drops an intent that came to nothing.
func (a *Agent) forget(ctx context.Context, id container.ID, f facts) (func(*worker), error) {
	if err := errors.Join(a.Bundles.Retire(id), a.Runtime.Remove(ctx, id)); err != nil {
		return nil, err
	}
	if err := a.Journal.Append(journal.Record{Op: journal.Forget, ID: id.String()}); err != nil {
		return nil, err
	}
	a.releaseCores(f.Entry.Cores)
	return func(w *worker) { w.Journaled, w.Entry = false, journal.Entry{} }, nil
}

// coresFor takes the cores of a worker, or finds those that the journal says it has.
func (a *Agent) takeCores(f facts) ([]int, error) {
	if a.Cores == nil {
		return nil, nil
	}
	if f.Journaled {
		return f.Entry.Cores, nil
	}
	cores := a.Cores.Take(int(f.Desired.Request.Active.Cores), a.numaNodeOf(f.Desired))
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

// nearGPUs is the NUMA node of an alloc's first GPU, -1 if it has none or it is not known.
func (a *Agent) numaNodeOf(d *api.Alloc) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(d.GPUs) == 0 || d.GPUs[0] >= len(a.gpus.Devices) {
		return -1
	}
	return a.gpus.Devices[d.GPUs[0]].NUMA
}
