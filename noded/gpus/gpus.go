// Package gpus knows the GPUs of a node: which there are, which are healthy, and which still have
// processes of ended jobs on them. It has a lock of its own, and calls nothing while it holds it.
package gpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/reconcile"
)

const (
	checkInterval = 10 * time.Second // between two checks of the GPUs' health
	// Patience is how long processes may stay on a GPU after their container has ended.
	Patience     = 5 * time.Second
	pollInterval = 100 * time.Millisecond
)

// Config is what a set of GPUs works with.
type Config struct {
	Source gpu.Source
	File   gpu.InventoryFile // keeps the inventory for the next daemon
	Log    *slog.Logger
	// RunsHere says whether a process belongs to a container that has not ended; nil: none does.
	RunsHere func(pid int) bool
}

// Set is the GPUs of the node with their health.
type Set struct {
	Config

	mu           sync.Mutex
	inventory    gpu.Inventory
	occupied     map[string]string // GPUs with processes of ended jobs on them: the problem by UUID
	unregistered bool              // they have changed since the node was registered
}

// New returns the GPUs of a node. Load reads them.
func New(c Config) *Set { return &Set{Config: c, occupied: map[string]string{}} }

// Watch checks the health of the GPUs until ctx ends.
func (g *Set) Watch(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		g.refresh(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Load reads the GPUs for the first time. GPUs that the last daemon knew on this boot keep their
// index, even if the driver does not answer.
func (g *Set) Load(ctx context.Context) error {
	known, err := g.File.Load()
	if err != nil {
		g.Log.Warn("cannot read the list of GPUs that the last daemon had", "err", err)
	}
	now, err := g.Source.Inventory(ctx)
	if err != nil && len(known.Devices) == 0 {
		return fmt.Errorf("read GPUs: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inventory = known.Update(now, err)
	g.save()
	return nil
}

// Expect refuses fewer GPUs than the node is configured to have: its driver is not loaded yet, or a
// GPU is off the bus. Those that the last daemon knew on this boot count, so that a lost GPU keeps no
// daemon from coming back to its jobs.
func (g *Set) Expect(n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	have := len(g.inventory.Devices)
	if have >= n {
		return nil
	}
	why := ""
	if g.inventory.Absent != "" {
		why = " (" + g.inventory.Absent + ")"
	}
	return fmt.Errorf("--gpus %d: this machine has %d%s: load NVIDIA's driver, look for missing GPUs with nvidia-smi "+
		"and \"rota doctor\", or correct the number", n, have, why)
}

// save keeps the inventory for the next daemon. A full disk does not stop this one. The mutex
// is held.
func (g *Set) save() {
	if err := g.File.Save(g.inventory); err != nil {
		g.Log.Error("cannot save the list of GPUs for the next daemon", "err", err)
	}
}

// refresh reads the GPUs again. If there were none, the driver may have been loaded late.
func (g *Set) refresh(ctx context.Context) {
	now, err := g.Source.Inventory(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = errors.New(reconcile.Message(err))
	}
	g.recheckOccupied(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.current()
	g.inventory = g.inventory.Update(now, err)
	g.noteChanges(before)
	if len(g.inventory.Devices) > len(before) {
		g.save()
	}
}

// ForRegistration returns the GPUs as they are to be registered now. Any later change needs another
// registration.
func (g *Set) ForRegistration() []model.GPU {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unregistered = false
	return g.current()
}

// SetUnregistered notes that the last registration has failed.
func (g *Set) SetUnregistered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unregistered = true
}

// NeedRegistration reports whether the GPUs have changed since the node was registered.
func (g *Set) NeedRegistration() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unregistered
}

// All returns the GPUs, with the health that the driver reported last.
func (g *Set) All() []model.GPU {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inventory.GPUs()
}

// NUMANode returns the NUMA node of the first of the GPUs with these indices, -1 if there is none
// or its node is unknown.
func (g *Set) NUMANode(indices []int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(indices) == 0 || indices[0] >= len(g.inventory.Devices) {
		return -1
	}
	return g.inventory.Devices[indices[0]].NUMA
}

// current returns the GPUs with their health, including problems that this daemon found itself. The
// mutex is held.
func (g *Set) current() []model.GPU {
	gpus := g.inventory.GPUs()
	for n := range gpus {
		if problem := g.occupied[gpus[n].UUID]; problem != "" && gpus[n].Healthy {
			gpus[n].Healthy, gpus[n].Problem = false, problem
		}
	}
	return gpus
}

// CheckHealthy returns an error if one of the GPUs cannot be used. Controllers do not grant such
// GPUs. But they may not know the latest problems yet, such as a process of the previous job that
// is still there.
func (g *Set) CheckHealthy(indices []int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.current()
	for _, i := range indices {
		if i < len(now) && !now[i].Healthy {
			return fmt.Errorf("GPU %d (%s) cannot be used: %s", i, now[i].UUID, now[i].Problem)
		}
	}
	return nil
}

// noteChanges has the node registered again if the health of its GPUs differs from before. The
// mutex is held.
func (g *Set) noteChanges(before []model.GPU) {
	after := g.current()
	if reflect.DeepEqual(before, after) {
		return
	}
	g.unregistered = true
	if len(after) > len(before) {
		g.Log.Info("new GPUs found", "gpus", len(after), "before", len(before))
	}
	for n := range before {
		if now := after[n]; before[n] != now {
			g.Log.Warn("the health of a GPU changed", "gpu", now.UUID, "healthy", now.Healthy, "problem", now.Problem)
		}
	}
}

// WhyNotFreeze says why a worker with these GPUs must not be frozen to give them to another worker.
// Its own processes would keep their GPU memory. "": they hold none.
func (g *Set) WhyNotFreeze(ctx context.Context, indices []int, others func(pid int) bool) string {
	all := g.All()
	for _, i := range indices {
		if i >= len(all) {
			continue
		}
		pids, err := g.Source.Processes(ctx, all[i].UUID)
		pids = slices.DeleteFunc(slices.Clone(pids), others)
		switch {
		case err != nil:
			return fmt.Sprintf("the driver does not report whether it holds memory of GPU %d", i)
		case len(pids) > 0:
			return fmt.Sprintf("process %d cannot give up its memory on GPU %d", pids[0], i)
		}
	}
	return ""
}

// AwaitVacant waits until a GPU of an ended worker has no processes but those of other running
// jobs. It reports whether that is so. It is called before the end is reported, which frees the GPU
// for other jobs. A GPU that keeps a process is taken out of use until the process is gone.
func (g *Set) AwaitVacant(ctx context.Context, index int) bool {
	all := g.All()
	if index >= len(all) {
		return true
	}
	problem := g.awaitNoProcesses(ctx, all[index].UUID)
	if problem != "" {
		g.setOccupied(all[index].UUID, problem)
	}
	return problem == ""
}

// awaitNoProcesses waits until a GPU has no processes. It returns the problem if some stay.
func (g *Set) awaitNoProcesses(ctx context.Context, uuid string) string {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		pids, err := g.leftovers(ctx, uuid)
		switch {
		case err == nil && len(pids) == 0:
			return ""
		case ctx.Err() != nil && len(pids) > 0:
			return fmt.Sprintf("process %d of an ended job still uses it", pids[0])
		case ctx.Err() != nil:
			return "the driver does not report whether processes of an ended job still use it"
		}
		t := time.NewTimer(pollInterval)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			if err == nil {
				return fmt.Sprintf("process %d of an ended job still uses it", pids[0])
			}
		}
	}
}

// leftovers returns the processes on a GPU that belong to no job that runs: other jobs may share it.
func (g *Set) leftovers(ctx context.Context, uuid string) ([]int, error) {
	pids, err := g.Source.Processes(ctx, uuid)
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return g.RunsHere != nil && g.RunsHere(pid) }), err
}

func (g *Set) setOccupied(uuid, problem string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.current()
	if problem == "" {
		delete(g.occupied, uuid)
	} else {
		g.occupied[uuid] = problem
	}
	g.noteChanges(before)
}

// recheckOccupied puts GPUs back into use that have become vacant.
func (g *Set) recheckOccupied(ctx context.Context) {
	g.mu.Lock()
	uuids := slices.Collect(maps.Keys(g.occupied))
	g.mu.Unlock()
	for _, uuid := range uuids {
		if pids, err := g.leftovers(ctx, uuid); err == nil && len(pids) == 0 {
			g.setOccupied(uuid, "")
		}
	}
}
