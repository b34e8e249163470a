// Package run carries out the actions that package reconcile finds due: it creates, starts, stops,
// saves and removes containers, one file for each action. An action holds no lock. It returns a change
// of the facts, which the caller applies. After an error the action is repeated.
package run

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/checkpoint"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/place"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

const (
	// Parallel is how many actions for different containers run at once; more would only queue for the
	// disk and the cores.
	Parallel = 16
	// Timeout is the timeout of one action; creating a container takes about 20 ms.
	Timeout = 60 * time.Second
)

// Change applies the outcome of an action to the facts about its container. It may be nil.
type Change func(*reconcile.Facts)

// Bundles makes and removes the files of a container. *bundle.Store implements it.
type Bundles interface {
	// Build writes the bundle of a worker that is to run on the given cores (nil: any cores) of a
	// node with these GPUs. It returns the bundle's directory.
	Build(ctx context.Context, id container.ID, a *api.Alloc, cores []int, gpus []model.GPU) (string, error)
	// Owner returns the user that a job runs as here. An error says that this is not known now.
	Owner(a *api.Alloc) (model.Identity, error)
	// Notice tells a container why it is being stopped, and when it will be killed.
	Notice(id container.ID, n container.Notice) error
	// Withdraw removes a notice.
	Withdraw(id container.ID, reason string) error
	place.Bundles
}

// Checkpoints makes the folders to which jobs save on this node. *checkpoint.Store implements it.
type Checkpoints interface {
	// Prepare makes the folder of a worker from the folder of its last attempt; nil: an empty one.
	Prepare(ctx context.Context, w checkpoint.Worker, from *api.CheckpointSource) error
	// NewImage returns where the processes of a worker are to be saved.
	NewImage(id container.ID) (string, error)
}

// Journal is the part of the node's journal that actions use. *journal.Journal implements it.
type Journal interface {
	// Append returns when the records are on disk.
	Append(records ...journal.Record) error
	// Entry returns the journal's record of one container.
	Entry(id string) (journal.Entry, bool)
}

// Runner carries out actions. Its functions come from the rest of the node.
type Runner struct {
	Runtime     container.Runtime
	Bundles     Bundles
	Checkpoints Checkpoints    // nil: no job keeps its checkpoint here
	Criu        container.Criu // saves processes; without a path: none are saved here
	Journal     Journal
	Cores       *machine.Cores // nil: jobs get shares of processor time, not cores by number
	GPUs        *gpus.Set
	Places      *place.Places
	Outbox      *report.Outbox
	Steps       *jobsteps.Manager  // nil: jobs have no steps here
	Serves      func(pid int) bool // whether a process outside of containers serves jobs; nil: none does
	Log         *slog.Logger

	OpenSocket   func(id container.ID)                                 // lets it ask the controllers
	LeaseEnd     func(a *api.Alloc) time.Time                          // of a container created now
	Stopping     func() bool                                           // this daemon is about to end
	Register     func(ctx context.Context)                             // has the node registered at once
	Progress     func(id container.ID) []api.Sample                    // the last, for the end
	Findings     func(id container.ID)                                 // queues the last of log policies
	Usage        func(id container.ID, f *reconcile.Facts) model.Usage // of a worker that has ended
	ReachedTotal func(id container.ID, a *api.Alloc) bool              // it has done its last step
}

// logOf returns a log whose messages name a container and its job.
func (r *Runner) logOf(id container.ID) *slog.Logger {
	return r.Log.With("job", id.Job, "alloc", id.String())
}

// Do carries out one action for a container.
func (r *Runner) Do(ctx context.Context, id container.ID, f *reconcile.Facts, a reconcile.Action) (Change, error) {
	if a.Kind == reconcile.Fetch {
		return r.prepare(ctx, id, f) // it takes as long as the copy makes progress
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	switch a.Kind {
	case reconcile.Create:
		return r.create(ctx, id, f)
	case reconcile.Start:
		return r.start(ctx, id, f)
	case reconcile.Stop:
		return r.stop(ctx, id, f)
	case reconcile.Save:
		return r.save(ctx, id, f)
	case reconcile.Early:
		return r.tellEarly(ctx, id, f)
	case reconcile.Warn:
		return r.warn(id, f)
	case reconcile.Evict:
		return r.evict(id, f)
	case reconcile.Kill:
		return nil, r.Runtime.Kill(ctx, id)
	case reconcile.Tell:
		return r.tellSteps(ctx, id, f)
	case reconcile.Leave:
		return nil, r.Runtime.Signal(ctx, id, container.Signal{Number: int(syscall.SIGTERM)})
	case reconcile.Switch:
		return r.switchTo(ctx, id, f)
	case reconcile.Yield:
		return r.yield(id, f)
	case reconcile.Finish:
		done, err := r.recordResult(ctx, id, f, a.Result)
		if err == nil && f.Actual == "" {
			r.cleanUpFailed(ctx, id)
		}
		return done, err
	case reconcile.Remove:
		return r.remove(ctx, id)
	case reconcile.Forget:
		return r.forget(ctx, id, f)
	}
	return nil, fmt.Errorf("unknown action %q", a.Kind)
}
