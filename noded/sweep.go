package noded

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/rota-hpc/rota/noded/container"
)

// sweep drops what lies below the directory for containers and belongs to none: what a daemon that was killed while it removed one, or while it
// made one that failed, had no time for. What the journal has not done with is the agent's business.
func sweepContainers(ctx context.Context, containers string, b Bundles, rt container.Runtime, j Journal) error {
	list, err := rt.List(ctx)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(containers)
	for _, e := range entries {
		id, ok := container.ParseID(e.Name())
		there := slices.ContainsFunc(list, func(s container.Status) bool { return s.ID == id })
		if written, known := j.Entry(id.String()); !ok || there || known && written.Final == nil {
			continue
		}
		err = errors.Join(err, b.Retire(id), rt.Remove(ctx, id))
	}
	return err
}
