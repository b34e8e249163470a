// Package place clears the place of a worker on the disk of its node. It has the one rule by which
// anything of a worker is removed.
//
// A worker with the name JOB.ATTEMPT.WORKER has these below the data directory:
//
//	containers/NAME  its folder: bundle, roots of images, socket, the shim's records and output
//	logs/NAME        its output after its end; package logs removes it by age and size
//	checkpoints/     its checkpoint, or the image of its processes; package checkpoints says what stays
//
// A part of an srun step has a folder only. Its output belongs to srun.
package place

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// Bundles keeps the output of ended workers. *bundle.Store implements it.
type Bundles interface {
	// Retire keeps the log of an ended container and removes the roots of its tasks.
	Retire(id container.ID) error
}

// Runtime removes folders of containers. A container.Runtime implements it.
type Runtime interface {
	// List returns all containers.
	List(ctx context.Context) ([]container.Status, error)
	// Remove removes the folder of a container. It refuses a container that lives, by
	// container.ErrLive.
	Remove(ctx context.Context, id container.ID) error
}

// Places are the places of all workers of a node.
type Places struct {
	Bundles Bundles
	Runtime Runtime
	// CloseSocket closes the socket of a container, at which its processes ask the controllers; nil:
	// none has a socket.
	CloseSocket func(id container.ID)
	// Parts returns the parts of srun steps beside a worker; nil: it has none.
	Parts func(worker container.ID) []container.ID
}

// Clear removes everything of a worker, or of a part of a step, but its log. After an error it may be
// called again. It refuses a container that lives.
func (p *Places) Clear(ctx context.Context, id container.ID) error {
	// 1. No process speaks for the job any more.
	if p.CloseSocket != nil {
		p.CloseSocket(id)
	}
	// 2. The steps beside a worker go first, because they are found by its name. Its log is kept
	// before its folder goes.
	if id.Step == 0 {
		if err := errors.Join(p.clearParts(ctx, id), p.Bundles.Retire(id)); err != nil {
			return err
		}
	}
	// 3. The folder goes last: while it is there, the next daemon finds the rest.
	return p.Runtime.Remove(ctx, id)
}

// clearParts removes the parts of steps beside a worker.
func (p *Places) clearParts(ctx context.Context, worker container.ID) error {
	if p.Parts == nil {
		return nil
	}
	var errs []error
	for _, part := range p.Parts(worker) {
		errs = append(errs, p.Clear(ctx, part))
	}
	return errors.Join(errs...)
}

// Journal says what earlier daemons have done. *journal.Journal implements it.
type Journal interface {
	// Entry returns what the journal says of one container.
	Entry(id string) (journal.Entry, bool)
}

// Sweep clears the folders in a directory that belong to no container. A daemon that was killed while
// it created or removed a container leaves such a folder. Containers without a result in the journal
// are left alone: they are still to be created or reported.
func (p *Places) Sweep(ctx context.Context, dir string, j Journal) error {
	list, err := p.Runtime.List(ctx)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		id, ok := container.ParseID(e.Name())
		there := slices.ContainsFunc(list, func(s container.Status) bool { return s.ID == id })
		if written, known := j.Entry(id.String()); !ok || there || known && written.Final == nil {
			continue
		}
		err = errors.Join(err, p.Clear(ctx, id))
	}
	return err
}
