// Package checkpoints decides which checkpoint folders stay on a node: package checkpoint makes, copies
// and removes them. Folders that the controllers do not know stay until an admin decides. It has a lock
// of its own, and calls nothing while it holds it.
package checkpoints

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
)

const (
	// Every is the time between two questions which folders are needed.
	Every    = time.Minute
	askAgain = 2 * time.Second // after no answer, as at the start of a daemon
	// AskTimeout is how long a controller may take to answer a question about folders.
	AskTimeout = 15 * time.Second
	askAtOnce  = 10_000 // folders in one question; the controllers take twice as many
)

// Folders are the checkpoint folders on this node.
type Folders interface {
	// List returns the workers whose folders are here.
	List() []container.ID
	// Remove removes a folder. It does not wait until that is done.
	Remove(id container.ID)
}

// Controller knows which folders are needed.
type Controller interface {
	// DropCheckpoints returns which of the folders that the node keeps are not needed any more.
	DropCheckpoints(ctx context.Context, node string, req api.KeptCheckpoints) (*api.DroppedCheckpoints, error)
}

// Keeper removes checkpoint folders that no attempt needs, and keeps those that the controllers do not
// know.
type Keeper struct {
	Folders      Folders // nil: the node has none
	Kept         *Kept
	Control      Controller
	Node, BootID string
	Log          *slog.Logger
	// Here reports whether a folder is that of a worker here, or one that such a worker may begin with.
	Here func(id container.ID) bool
	// Retry logs that a try has failed and is repeated after the time waited.
	Retry func(ctx context.Context, what string, err error, waited time.Duration)
}

// Run removes folders that no attempt needs any more, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.Folders == nil {
		return nil
	}
	for {
		again := Every
		if ids := k.Folders.List(); len(ids) > 0 || len(k.Kept.list()) > 0 {
			if err := k.drop(ctx, ids); err != nil {
				again = askAgain
				k.Retry(ctx, "cannot ask the controllers which checkpoints are needed: keeping all", err, again)
			}
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// drop asks about these folders and removes those that are not needed. Without an answer
// nothing is removed, nor is a folder of what is here.
func (k *Keeper) drop(ctx context.Context, ids []container.ID) error {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	if err := k.keepUnknown(nil, ids); err != nil {
		return err
	}
	ids = slices.DeleteFunc(k.Folders.List(), func(id container.ID) bool { return k.Here(id) || k.Kept.has(id) })
	for part := range slices.Chunk(ids, askAtOnce) {
		req := api.KeptCheckpoints{BootID: k.BootID}
		for _, id := range part {
			req.IDs = append(req.IDs, id.String())
		}
		answer, err := k.Control.DropCheckpoints(ctx, k.Node, req)
		if err != nil {
			return err
		}
		if err := k.keepUnknown(answer.Unknown, k.Folders.List()); err != nil {
			return err
		}
		for _, text := range answer.IDs {
			if id, ok := container.ParseID(text); ok && !k.Here(id) {
				k.Folders.Remove(id)
			}
		}
	}
	return nil
}

// keepUnknown keeps the folders that the controllers do not know, and removes those whose time is over.
func (k *Keeper) keepUnknown(unknown []string, here []container.ID) error {
	now := time.Now()
	fresh, err := k.Kept.keep(unknown, now)
	if len(fresh) > 0 {
		k.Log.Warn("the controllers do not know these checkpoint folders: they are kept until an admin decides (rota node "+
			"kept)",
			"folders", fresh, "until", now.Add(keptFor).UTC().Format(time.RFC3339))
	}
	over, gone := k.Kept.settle(here, now)
	for _, id := range over {
		k.logOf(id).Warn("removing a checkpoint folder that the controllers have not known for 14 days")
		k.Folders.Remove(id)
	}
	return errors.Join(err, gone)
}

// logOf returns a log whose messages name a folder and its job.
func (k *Keeper) logOf(id container.ID) *slog.Logger {
	return k.Log.With("job", id.Job, "alloc", id.String())
}
