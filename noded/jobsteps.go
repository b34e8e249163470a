package noded

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/run"
)

// jobSteps are the steps of jobs: the parts that run on this node, and those that jobs start whose first
// workers are here. The zero value has none.
type jobSteps struct {
	*jobsteps.Manager
}

// StepParts is the agent's surroundings for the steps of jobs.
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
		Worker: a.workers.ForSteps, Lease: a.workers.LeaseEnd, Runtime: a.Runtime, OpenIO: p.OpenIO,
		Build: func(
			ctx context.Context, w jobsteps.Worker, id container.ID, cores []int, s oci.Step, part *jobsteps.Part,
		) (string, error) {
			dir, err := p.Build(ctx, w, id, cores, a.gpus.All(), s, part)
			if err == nil {
				a.workers.OpenSocket(id)
			}
			return dir, err
		},
		Clear: a.places.Clear,
	}
	local.Init()
	a.jobSteps.Manager = jobsteps.NewManager(ctx, jobsteps.Config{
		Name: a.Node.Name, Local: local, Remote: p.Remote, Journal: a.Journal, Report: a.out.PutStep, Log: a.Log,
		Idle: a.workers.StepsEnded, EndJob: a.endHolder,
	})
	a.places.Parts = local.All
	a.run.Steps, a.workers.Steps, a.measure.Steps = a.jobSteps.Manager, a.jobSteps.Manager, local
}

// endHolder kills the script of a job that only holds its nodes, for a command that is gone. It tries until
// that is done, the worker does not live, or ctx ends.
func (a *Agent) endHolder(ctx context.Context, id container.ID) {
	kill := container.Signal{Number: int(unix.SIGKILL), To: jobspec.SignalScript, Plain: true}
	for delay := time.Second; a.workers.Live(id); delay = min(2*delay, time.Minute) {
		one, cancel := context.WithTimeout(ctx, run.Timeout)
		err := a.Runtime.Signal(one, id, kill)
		cancel()
		if err == nil {
			return
		}
		a.Log.Warn("cannot end a job whose srun is gone; trying again", "job", id.Job, "alloc", id.String(), "err", err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
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
		a.Log.Warn("cannot record in the journal which steps the controllers know; reporting these steps again", "err", err)
	}
}
