package noded

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/rota-hpc/rota/noded/container"
)

// sweepContainers removes directories below containers that belong to no container. A daemon that
// was killed while it created or removed a container leaves such a directory. Containers without a
// result in the journal are left to the agent.
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
		if id.Step == 0 { // a part of a step has no log
			err = errors.Join(err, b.Retire(id))
		}
		err = errors.Join(err, rt.Remove(ctx, id))
	}
	return err
}
