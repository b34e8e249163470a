package noded

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/checkpoints"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/measure"
	"github.com/rota-hpc/rota/noded/place"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/run"
	"github.com/rota-hpc/rota/noded/workers"
)

// Controller is the part of the control plane that an agent uses. *controllers.Controllers
// implements it.
type Controller interface {
	follow.Controller
	report.Controller
	checkpoints.Controller
}

// Checkpoints makes, copies and removes the folders to which jobs save on this node.
// *checkpoint.Store implements it.
type Checkpoints interface {
	run.Checkpoints
	checkpoints.Folders
}

// Bundles makes and removes the files of a container. *bundle.Store implements it.
type Bundles interface {
	run.Bundles
	measure.Bundles
}

// Journal is the part of the node's journal that an agent uses. *journal.Journal implements it.
type Journal interface {
	run.Journal
	// Entries returns the journal's records of all containers.
	Entries() []journal.Entry
}

// Parts is the surroundings of an agent.
type Parts struct {
	Node        model.Node // is registered with the controllers; its GPUs come from GPUs
	Control     Controller
	Runtime     container.Runtime
	Bundles     Bundles
	Checkpoints Checkpoints    // nil: no job keeps its checkpoint here
	Criu        container.Criu // saves processes; without a path: none are saved here
	Journal     Journal
	GPUs        gpu.Source
	GPUFile     gpu.InventoryFile // keeps the inventory of the GPUs; the zero value keeps nothing
	Foreign     string            // cluster that the containers here are of, if it is not this node's; "" otherwise
	Cores       *machine.Cores    // nil: jobs get shares of processor time, not cores by number
	Log         *slog.Logger
	// Used returns how much a container has used by now; nil: unknown.
	Used func(id container.ID) (container.Used, error)
	// Serves reports whether a process outside of containers computes on GPUs for jobs, as MPS
	// does; nil: none does.
	Serves func(pid int) bool
	// Sockets lets the processes of containers ask the controllers; nil: they cannot.
	Sockets workers.Sockets
	// Lineage is the generation of the cluster that the node follows; nil: it begins with 0.
	Lineage *follow.Lineage
	// Outage has the witnesses for an outage of the controllers; nil: memory alone has them.
	Outage *follow.Outage
	// AskWitness asks the daemon of a node for how long it has heard of no leader, in milliseconds.
	// If it is nil, no other node is asked.
	AskWitness func(ctx context.Context, node, addr string) (int64, error)
	// Boot is CLOCK_BOOTTIME in milliseconds, the clock of witnesses; nil: this machine's.
	Boot func() int64
	// KeptFile remembers the checkpoint folders that the controllers do not know; "": memory alone
	// does.
	KeptFile string
	// Logged returns the workers whose output is kept here; nil: none is.
	Logged func() []container.ID
}

// Agent makes the containers of this node match the allocations of the controllers, and reports
// their states. It only wires the rooms; each has a lock of its own or none.
type Agent struct {
	Parts
	workers  *workers.Table      // compares the wanted containers with the existing ones
	run      *run.Runner         // carries out actions
	places   *place.Places       // removes the files of workers from the disk
	follow   *follow.Follower    // hears the leader
	measure  *measure.Meter      // measures the workers
	gpus     *gpus.Set           // knows the GPUs and their health
	out      *report.Outbox      // keeps reports that the controllers have not confirmed yet
	sender   *report.Sender      // sends it
	keeper   *checkpoints.Keeper // decides which checkpoint folders stay
	jobSteps jobSteps            // the srun steps of jobs
}

// NewAgent returns an agent that works with these parts.
func NewAgent(p Parts) *Agent {
	a := &Agent{Parts: p, out: report.NewOutbox()}
	node, boot := p.Node.Name, p.Node.BootID
	a.workers = workers.New(workers.Config{Node: node, Foreign: p.Foreign != "", Runtime: p.Runtime, Journal: p.Journal,
		Outbox: a.out, Sockets: p.Sockets, Cores: p.Cores, Serves: p.Serves, Folders: a.folders, Log: p.Log})
	a.gpus = gpus.New(gpus.Config{Source: p.GPUs, File: p.GPUFile, Log: p.Log, RunsHere: a.workers.RunsHere})
	a.measure = measure.New(measure.Config{Node: a.workers, Bundles: p.Bundles, Journal: p.Journal, Outbox: a.out,
		Driver: p.GPUs, GPUs: a.gpus, Log: p.Log, Used: p.Used,
		ContainerOf: func(pid int) (container.ID, bool) { return p.Runtime.ContainerOf(pid) }})
	a.follow = follow.New(follow.Config{Self: p.Node, Control: p.Control, Node: a.workers, GPUs: a.gpus,
		Lineage: p.Lineage, Outage: p.Outage, AskWitness: p.AskWitness, Boot: p.Boot, Notices: a.notices, Log: p.Log})
	a.places = &place.Places{Bundles: p.Bundles, Runtime: p.Runtime, CloseSocket: a.workers.CloseSocket}
	a.run = &run.Runner{Runtime: p.Runtime, Bundles: p.Bundles, Criu: p.Criu, Journal: p.Journal, Cores: p.Cores,
		GPUs: a.gpus, Outbox: a.out, Serves: p.Serves, Log: p.Log, OpenSocket: a.workers.OpenSocket,
		Places: a.places, LeaseEnd: a.workers.LeaseEnd, Stopping: a.workers.Stopping,
		Register: a.follow.RegisterNow, Progress: a.measure.NewProgress, Findings: a.measure.QueueFindings,
		Usage: a.measure.UsageOf, ReachedTotal: a.measure.ReachedTotal}
	a.workers.Runner, a.workers.Meter = a.run, a.measure
	a.sender = &report.Sender{Outbox: a.out, Control: p.Control, Node: node, BootID: boot, Log: p.Log,
		Retry: a.follow.LogRetry, StepsConfirmed: a.stepsConfirmed, Confirmed: a.workers.Confirmed}
	a.keeper = &checkpoints.Keeper{Kept: checkpoints.NewKept(), Control: p.Control, Node: node, BootID: boot, Log: p.Log,
		Here: a.workers.NeedsFolder, Retry: a.follow.LogRetry}
	if p.Checkpoints != nil {
		a.run.Checkpoints, a.keeper.Folders = p.Checkpoints, p.Checkpoints
	}
	return a
}

// Run works until ctx ends. Containers go on running after that.
func (a *Agent) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	a.workers.Start(ctx)
	if err := a.keeper.Kept.Open(a.KeptFile); err != nil {
		return err
	}
	// 1. Learn the state that an earlier daemon has left. Only then is it known which containers
	//    may be created or stopped.
	if err := a.workers.Recover(); err != nil {
		return err
	}
	if a.Foreign != "" {
		a.follow.KeepAll("its containers belong to cluster " + a.Foreign +
			", which this node has left: they run until their leases end")
	}
	if err := a.workers.FirstInspection(ctx, func(err error, again time.Duration) {
		a.follow.LogRetry(ctx, "cannot list containers; trying again", err, again)
	}); err != nil {
		return err
	}
	// 2. Each room has a loop.
	for _, loop := range []func(context.Context) error{a.workers.Watch, a.sender.Run, a.follow.Run, a.measure.Run,
		a.gpus.Watch, a.keeper.Run} {
		group.Go(func() error { return loop(ctx) })
	}
	err := group.Wait()
	// 3. Actions that have begun come to their end.
	a.workers.Wait()
	if a.jobSteps.Manager != nil {
		a.jobSteps.Wait()
	}
	return err
}

// folders returns the workers that have a checkpoint folder or a log here.
func (a *Agent) folders() (list []container.ID) {
	if a.Checkpoints != nil {
		list = a.Checkpoints.List()
	}
	if a.Logged != nil {
		list = append(list, a.Logged()...)
	}
	return list
}

// notices returns the notices of this node's parts for rota nodes.
func (a *Agent) notices() []string {
	return []string{a.workers.SilentShims(), a.keeper.Kept.Notice()}
}

// Alive returns nil once the loop that watches containers has answered, and no lock is held for
// good. The loop answers after it has found the containers that run here. Otherwise Alive returns an
// error when ctx ends.
func (a *Agent) Alive(ctx context.Context) error {
	if err := a.workers.Alive(ctx); err != nil {
		return err
	}
	free := make(chan struct{})
	go func() {
		a.follow.AwaitFree()
		close(free)
	}()
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the part that follows the controllers stays locked: %w", context.Cause(ctx))
	}
}
