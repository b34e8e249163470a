package workers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/run"
)

// ForSteps returns a worker that is here, for the steps beside it. Refuse says why no step may start
// now.
func (t *Table) ForSteps(id container.ID) (jobsteps.Worker, error) {
	h, unlock := t.lock()
	defer unlock()
	w := h.workers[id]
	switch {
	case w != nil && w.Desired != nil && !w.Kept:
	case !h.desiredKnown:
		return jobsteps.Worker{}, later("no controller has told this node yet which jobs belong here")
	default:
		return jobsteps.Worker{}, fmt.Errorf("worker %s: %w", id, container.ErrUnknown)
	}
	out := jobsteps.Worker{ID: id, Alloc: w.Desired, Cores: slices.Clone(w.Entry.Cores), Pid: w.Pid,
		Paused: w.Switch.Ordered%2 == 1 && w.Switch.Problem == ""}
	switch {
	case w.Actual == container.Silent || w.Actual == container.Created,
		w.Actual == "" && w.Entry.Final == nil && w.Desired.Stop == nil:
		// its program or a controller is faster than this daemon, and asks again
		out.Refuse = later("job %d is starting on node %s", id.Job, h.Node)
	case w.Actual != container.Running:
		out.Refuse = never("job %d does not run on node %s", id.Job, h.Node)
	case w.Desired.Stop != nil:
		out.Refuse = never("job %d is being stopped", id.Job)
	case w.Pid == 0: // whose namespaces its steps need
		out.Refuse = later("the processes of job %d on node %s are not known yet", id.Job, h.Node)
	}
	return out, nil
}

// later refuses a request that may be repeated.
func later(format string, args ...any) *api.Problem {
	return &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
		Detail: fmt.Sprintf(format, args...)}
}

// never refuses a request for good.
func never(format string, args ...any) *api.Problem {
	return &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState, Detail: fmt.Sprintf(format, args...)}
}

// markSteps returns a mark for noteSteps: the list that follows is newer than it.
func (t *Table) markSteps() uint64 {
	if t.Steps == nil {
		return 0
	}
	return t.Steps.Local.Mark()
}

// noteSteps takes over the states of the parts of steps here, and counts those beside each worker. A
// part whose worker has ended is killed.
func (h held) noteSteps(mark uint64, parts []container.Status) {
	if h.Steps == nil {
		return
	}
	h.Steps.Local.Note(mark, parts)
	count := map[container.ID]int{}
	for _, s := range parts {
		if !reconcile.Lives(s.State) {
			continue
		}
		of := s.ID.OfWorker()
		if w := h.workers[of]; w != nil && (w.Exists() || w.busy || w.WaitsForSteps(time.Now())) {
			count[of]++
			continue
		}
		h.killPart(s.ID)
	}
	for id, w := range h.workers {
		w.Steps = count[id]
	}
}

// killPart kills a part of a step in the background.
func (h held) killPart(id container.ID) {
	t, ctx := h.Table, h.ctx
	if ctx == nil { // Start has not been called yet
		ctx = context.Background()
	}
	h.actions.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, run.Timeout)
		defer cancel()
		if err := t.Runtime.Kill(ctx, id); err != nil {
			t.logOf(id).Warn("cannot end a step whose job has ended", "err", err)
		}
	})
}

// StepsEnded notes that the last running step of a job has ended.
func (t *Table) StepsEnded(id container.ID) {
	h, unlock := t.lock()
	defer unlock()
	if w := h.workers[id]; w != nil {
		h.reconcile(w)
	}
}

// outlived reports whether a worker has ended before its steps. Those that an earlier daemon has
// started are in the journal.
func (h held) outlived(w *worker) bool {
	if w.Actual != container.Exited || w.Entry.Final != nil || h.Steps == nil ||
		w.Desired != nil && !w.Desired.RunsSteps() {
		return false
	}
	e, _ := h.Journal.Entry(w.ID.String())
	return h.Runner.RunsSteps(w.ID) || slices.ContainsFunc(e.Steps, func(s journal.Step) bool { return s.Report == nil })
}

// recoverSteps goes on with the steps that the first worker has started under an earlier daemon.
func (h held) recoverSteps(w *worker) {
	if h.Steps == nil || w.stepsKnown || len(w.Entry.Steps) == 0 || w.Desired == nil {
		return
	}
	w.stepsKnown = true
	steps := h.Steps
	h.actions.Go(func() { steps.Recover(w.ID) })
}
