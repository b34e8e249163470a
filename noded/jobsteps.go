package noded

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/run"
)

// jobSteps are the steps of jobs: the parts that run on this node, and those that jobs start whose first
// workers are here. The zero value has none.
type jobSteps struct {
	*jobsteps.Manager
}

// StepParts is what an agent runs the steps of jobs with.
type StepParts struct {
	// Build writes the bundle of a part of a step.
	Build func(ctx context.Context, w jobsteps.Worker, id container.ID, cores []int, gpus []model.GPU, s oci.Step,
		p *jobsteps.Part) (string, error)
	// OpenIO connects to the input and output of a container.
	OpenIO func(ctx context.Context, id container.ID, from int64) (*stream.Conn, error)
	Remote func(node string) jobsteps.Node
}

// runSteps has an agent run the steps of jobs until ctx ends.
func (a *Agent) runSteps(ctx context.Context, p StepParts) {
	local := &jobsteps.Local{
		Worker: a.stepWorker, Lease: a.leaseEnd, Runtime: a.Runtime, OpenIO: p.OpenIO,
		Build: func(
			ctx context.Context, w jobsteps.Worker, id container.ID, cores []int, s oci.Step, part *jobsteps.Part,
		) (string, error) {
			dir, err := p.Build(ctx, w, id, cores, a.gpus.All(), s, part)
			if err == nil {
				a.openSocket(id)
			}
			return dir, err
		},
	}
	local.Dropped = a.closeSocket
	local.Init()
	a.jobSteps.Manager = jobsteps.NewManager(ctx, jobsteps.Config{
		Name: a.Node.Name, Local: local, Remote: p.Remote, Journal: a.Journal, Report: a.out.PutStep, Log: a.Log,
		Idle: a.stepsEnded, EndJob: a.endHolder,
	})
	a.run.Steps, a.measure.Steps = a.jobSteps.Manager, local
}

// endHolder kills the script of a job that only holds its nodes, for a command that is gone. It tries until
// that is done, the worker does not live, or ctx ends.
func (a *Agent) endHolder(ctx context.Context, id container.ID) {
	kill := container.Signal{Number: int(unix.SIGKILL), To: jobspec.SignalScript, Plain: true}
	for delay := time.Second; a.Live(id); delay = min(2*delay, time.Minute) {
		one, cancel := context.WithTimeout(ctx, run.Timeout)
		err := a.Runtime.Signal(one, id, kill)
		cancel()
		if err == nil {
			return
		}
		a.logOf(id).Warn("cannot end a job whose srun is gone; it is tried again", "err", err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// stepWorker returns a worker that is here, for the steps beside it.
func (a *Agent) stepWorker(id container.ID) (jobsteps.Worker, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id]
	switch {
	case w != nil && w.Desired != nil && !w.Kept:
	case !a.desiredKnown:
		return jobsteps.Worker{}, &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
			Detail: "no controller has told this node yet what runs here"}
	default:
		return jobsteps.Worker{}, fmt.Errorf("worker %s: %w", id, container.ErrUnknown)
	}
	out := jobsteps.Worker{ID: id, Alloc: w.Desired, Cores: slices.Clone(w.Entry.Cores), Pid: w.Pid,
		Paused: w.Switch.Ordered%2 == 1 && w.Switch.Problem == ""}
	switch {
	case w.Actual == container.Silent || w.Actual == container.Created,
		w.Actual == "" && w.Entry.Final == nil && w.Desired.Stop == nil:
		// its program or a controller is faster than this daemon, and asks again
		out.Refuse = &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
			Detail: fmt.Sprintf("job %d begins on node %s", id.Job, a.Node.Name)}
	case w.Actual != container.Running:
		out.Refuse = &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
			Detail: fmt.Sprintf("job %d does not run on node %s", id.Job, a.Node.Name)}
	case w.Desired.Stop != nil:
		out.Refuse = &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
			Detail: fmt.Sprintf("job %d is being stopped", id.Job)}
	case w.Pid == 0: // whose namespaces its steps need
		out.Refuse = &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
			Detail: fmt.Sprintf("the processes of job %d on node %s are not known yet", id.Job, a.Node.Name)}
	}
	return out, nil
}

// markSteps returns what noteSteps gets with what is listed after it.
func (a *Agent) markSteps() uint64 {
	if a.jobSteps.Manager == nil {
		return 0
	}
	return a.jobSteps.Local.Mark()
}

// noteSteps takes what is true of the parts of steps here. Those end whose workers have ended. The mutex
// is held.
func (a *Agent) noteSteps(mark uint64, parts []container.Status) {
	if a.jobSteps.Manager == nil {
		return
	}
	a.jobSteps.Local.Note(mark, parts)
	count := map[container.ID]int{}
	for _, s := range parts {
		if !reconcile.Lives(s.State) {
			continue
		}
		of := s.ID.OfWorker()
		if w := a.workers[of]; w != nil && (w.Exists() || w.busy || w.WaitsForSteps(time.Now())) {
			count[of]++
			continue
		}
		a.actions.Go(func() {
			ctx, cancel := context.WithTimeout(a.ctxOrNone(), run.Timeout)
			defer cancel()
			if err := a.Runtime.Kill(ctx, s.ID); err != nil {
				a.logOf(s.ID).Warn("cannot end a step whose job has ended", "err", err)
			}
		})
	}
	for id, w := range a.workers {
		w.Steps = count[id]
	}
}

// stepsEnded notes that the last step of a job has ended that runs.
func (a *Agent) stepsEnded(id container.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workers[id]; w != nil {
		a.reconcile(w)
	}
}

// ctxOrNone returns the context of Run, or one that does not end before it began. The mutex is held.
func (a *Agent) ctxOrNone() context.Context {
	if a.ctx == nil {
		return context.Background()
	}
	return a.ctx
}

// outlived reports whether a worker has ended before its steps. Those that an earlier daemon has started are
// in the journal. The mutex is held.
func (a *Agent) outlived(w *worker) bool {
	if w.Actual != container.Exited || w.Entry.Final != nil || a.jobSteps.Manager == nil ||
		w.Desired != nil && !w.Desired.RunsSteps() {
		return false
	}
	e, _ := a.Journal.Entry(w.ID.String())
	return a.run.RunsSteps(w.ID) || slices.ContainsFunc(e.Steps, func(s journal.Step) bool { return s.Report == nil })
}

// desired returns what the controllers want for a worker, nil if that is not known.
func (a *Agent) desired(id container.ID) *api.Alloc {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workers[id]; w != nil {
		return w.Desired
	}
	return nil
}

// recoverSteps goes on with the steps that the first worker has started under an earlier daemon. The
// mutex is held.
func (a *Agent) recoverSteps(w *worker) {
	if a.jobSteps.Manager == nil || w.stepsKnown || len(w.Entry.Steps) == 0 || w.Desired == nil {
		return
	}
	w.stepsKnown = true
	a.actions.Go(func() { a.jobSteps.Recover(w.ID) })
}

// recoverRows reports the steps again that have ended, and that the controllers may not know.
func (a *Agent) recoverRows(e journal.Entry) {
	for _, s := range e.Steps {
		if s.Report != nil {
			a.out.PutStep(*s.Report)
		}
	}
}

// stepsConfirmed notes which steps the controllers know.
func (a *Agent) stepsConfirmed(sent []model.StepReport) {
	last := map[container.ID]int{}
	for i := range sent {
		last[report.StepOf(&sent[i])] = sent[i].Row
	}
	var records []journal.Record
	for id, row := range last {
		records = append(records, journal.Record{Op: journal.StepsKnown, ID: id.String(), Row: row})
	}
	if len(records) == 0 {
		return
	}
	if err := a.Journal.Append(records...); err != nil {
		a.Log.Warn("cannot write to the journal which steps the controllers know; they are reported again", "err", err)
	}
}
