package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// longerThanALease is how long all controllers are away at least: a lease, its margin and more.
const longerThanALease = 10 * time.Second

// Parts of lostDisk.
const (
	writesMissed = 2 * time.Second // for which the others acknowledge what the lost disk had
	deafFor      = 3 * time.Second // for which the one that knows is out of reach: several elections
)

// lostDisk has two of three controllers acknowledge writes that the third misses. Then one of the
// two loses its disk, or gets an old one, and comes back together with the third. The one that has
// everything is out of reach meanwhile. The two must not lead. In the end all three are whole.
func (h *harm) lostDisk(ctx context.Context, d, behind *lab.Daemon, f fault) error {
	if err := h.settled(ctx); err != nil {
		return err
	}
	if err := h.allVote(ctx); err != nil {
		return err
	}
	third := slices.IndexFunc(h.cluster.Controllers, func(c *lab.Daemon) bool { return c != d && c != behind })
	knows := h.cluster.Controllers[third]
	d.Kill()
	if err := errors.Join(d.KeepDisk(), d.Start()); err != nil {
		return err
	}
	if err := h.settled(ctx); err != nil { // it knows all again before another one is missing
		return err
	}
	behind.Kill()
	if err := h.written(ctx); err != nil { // by the two, and so to the disk that gets lost
		return err
	}
	<-time.After(writesMissed)
	d.Kill()
	lose := d.EmptyDisk
	if f.kind == oldDisk {
		lose = d.OldDisk
	}
	err := lose()
	if f.amount > 0.5 {
		err = errors.Join(err, d.Boot())
	}
	err = errors.Join(err, during(deafFor, func() error {
		return errors.Join(h.cluster.Unplug(ctx, knows), d.Start(), behind.Start())
	}, func() error { return h.cluster.Plug(ctx, knows) }))
	if err != nil {
		return err
	}
	if f.kind == oldDisk { // it refuses to run, and its operator does what it says
		if !d.WaitEnd(patience) {
			return fmt.Errorf("%s runs with an old log", d.Name)
		}
		if err := errors.Join(d.EmptyDisk(), d.Start()); err != nil {
			return err
		}
	}
	if err := h.allVote(ctx); err != nil {
		return err
	}
	return h.settled(ctx)
}

// allVote waits until every controller has its vote.
func (h *harm) allVote(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := h.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = until(ctx, func() (int, error) {
		for _, d := range h.cluster.Controllers {
			if !d.Running() { // a service manager starts it again
				if err := d.Start(); err != nil {
					return 0, err
				}
			}
		}
		cl, _, err := client.Cluster(ctx)
		if err != nil {
			return 0, err
		}
		voters := 0
		for i := range cl.Controllers {
			if cl.Controllers[i].State == api.ControllerVoter {
				voters++
			}
		}
		if voters < len(h.cluster.Controllers) {
			return voters, fmt.Errorf("%d of %d controllers vote", voters, len(h.cluster.Controllers))
		}
		return voters, nil
	})
	return err
}

// Of a machine that is slow: it runs for a tenth of the time.
const (
	slowRuns  = 20 * time.Millisecond
	slowWaits = 180 * time.Millisecond
)

// slowed gives a daemon a tenth of a processor for a while.
func slowed(d *lab.Daemon, length time.Duration) error {
	for end := time.Now().Add(length); time.Now().Before(end) && d.Running(); {
		if err := during(slowWaits, d.Pause, d.Continue); err != nil {
			return err
		}
		<-time.After(slowRuns)
	}
	return nil
}

// cloned takes the cable of a node out, and starts a copy of its disk in another machine. The copy is
// gone before the node is back.
func (h *harm) cloned(ctx context.Context, d, at *lab.Daemon, length time.Duration) error {
	twin, err := h.cluster.Clone(d, at)
	if err != nil {
		return err
	}
	return during(length, func() error { return errors.Join(h.cluster.Unplug(ctx, d), twin.Start()) },
		func() error {
			if twin.Running() {
				twin.Kill()
			}
			return h.cluster.Plug(ctx, d)
		})
}

// emptyBut removes what a directory holds but one entry. Mounts in it are unmounted.
func emptyBut(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != keep {
			err = errors.Join(err, removeMounted(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// removeMounted removes a path, and unmounts what keeps it.
func removeMounted(path string) error {
	for {
		err := os.RemoveAll(path)
		var at *os.PathError
		if !errors.Is(err, unix.EBUSY) || !errors.As(err, &at) || unix.Unmount(at.Path, unix.MNT_DETACH) != nil {
			return err
		}
	}
}
