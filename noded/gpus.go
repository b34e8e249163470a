package noded

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
)

const (
	gpuCheckInterval = 10 * time.Second // between two checks of the GPUs' health
	gpuPatience      = 5 * time.Second  // for processes to leave a GPU after their container has ended
	gpuPollInterval  = 100 * time.Millisecond
)

// nodeGPUs are the GPUs of the node with their health.
type nodeGPUs struct {
	source gpu.Source
	file   gpu.InventoryFile
	log    *slog.Logger
	// runsHere says whether a process belongs to a container that has not ended; nil: none does. The
	// mutex is not held when it is called.
	runsHere func(pid int) bool

	mu           sync.Mutex
	inventory    gpu.Inventory
	occupied     map[string]string // GPUs with processes of ended jobs on them: the problem by UUID
	unregistered bool              // they have changed since the node was registered
}

// watch checks the health of the GPUs until ctx ends.
func (g *nodeGPUs) watch(ctx context.Context) error {
	tick := time.NewTicker(gpuCheckInterval)
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

// load reads the GPUs for the first time. GPUs that the last daemon knew on this boot keep their
// index, even if the driver does not answer.
func (g *nodeGPUs) load(ctx context.Context) error {
	known, err := g.file.Load()
	if err != nil {
		g.log.Warn("cannot read which GPUs the last daemon had", "err", err)
	}
	now, err := g.source.Inventory(ctx)
	if err != nil && len(known.Devices) == 0 {
		return fmt.Errorf("read GPUs: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inventory = known.Update(now, err)
	g.save()
	return nil
}

// expect refuses fewer GPUs than the node is configured to have: its driver is not loaded yet, or a
// GPU is off the bus. Those that the last daemon knew on this boot count, so that a lost GPU keeps no
// daemon from coming back to its jobs.
func (g *nodeGPUs) expect(n int) error {
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
	return fmt.Errorf("--gpus %d: this machine has %d%s: load NVIDIA's driver, look with nvidia-smi and \"rota doctor\" "+
		"for what is missing, or write the number that there is", n, have, why)
}

// save keeps the inventory for the next daemon. A full disk does not stop this one. The mutex
// is held.
func (g *nodeGPUs) save() {
	if err := g.file.Save(g.inventory); err != nil {
		g.log.Error("cannot save the list of GPUs for the next daemon", "err", err)
	}
}

// refresh reads the GPUs again. If there were none, the driver may have been loaded late.
func (g *nodeGPUs) refresh(ctx context.Context) {
	now, err := g.source.Inventory(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = errors.New(shortMessage(err))
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

// forRegistration returns the GPUs as they are to be registered now. Any later change needs another
// registration.
func (g *nodeGPUs) forRegistration() []model.GPU {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unregistered = false
	return g.current()
}

// setUnregistered notes that the last registration has failed.
func (g *nodeGPUs) setUnregistered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unregistered = true
}

// needRegistration reports whether the GPUs have changed since the node was registered.
func (g *nodeGPUs) needRegistration() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unregistered
}

// all returns the GPUs, with the health that the driver reported last.
func (g *nodeGPUs) all() []model.GPU {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inventory.GPUs()
}

// numaNode returns the NUMA node of the first of the GPUs with these indices, -1 if there is none
// or its node is unknown.
func (g *nodeGPUs) numaNode(indices []int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(indices) == 0 || indices[0] >= len(g.inventory.Devices) {
		return -1
	}
	return g.inventory.Devices[indices[0]].NUMA
}

// current returns the GPUs with their health, including problems that this daemon found itself. The
// mutex is held.
func (g *nodeGPUs) current() []model.GPU {
	gpus := g.inventory.GPUs()
	for n := range gpus {
		if problem := g.occupied[gpus[n].UUID]; problem != "" && gpus[n].Healthy {
			gpus[n].Healthy, gpus[n].Problem = false, problem
		}
	}
	return gpus
}

// checkHealthy returns an error if one of the GPUs cannot be used. Controllers do not grant
// such GPUs, but may not know the latest problems yet, such as a process of the previous job that
// is still there.
func (g *nodeGPUs) checkHealthy(indices []int) error {
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
func (g *nodeGPUs) noteChanges(before []model.GPU) {
	after := g.current()
	if reflect.DeepEqual(before, after) {
		return
	}
	g.unregistered = true
	if len(after) > len(before) {
		g.log.Info("new GPUs found", "gpus", len(after), "before", len(before))
	}
	for n := range before {
		if now := after[n]; before[n] != now {
			g.log.Warn("the health of a GPU changed", "gpu", now.UUID, "healthy", now.Healthy, "problem", now.Problem)
		}
	}
}

// whyNotFreeze says why a worker with these GPUs must not be frozen to give them to another one: what
// its own processes hold of their memory would stay. "": they hold none.
func (g *nodeGPUs) whyNotFreeze(ctx context.Context, indices []int, others func(pid int) bool) string {
	all := g.all()
	for _, i := range indices {
		if i >= len(all) {
			continue
		}
		pids, err := g.source.Processes(ctx, all[i].UUID)
		pids = slices.DeleteFunc(slices.Clone(pids), others)
		switch {
		case err != nil:
			return fmt.Sprintf("the driver does not say whether it holds memory of GPU %d", i)
		case len(pids) > 0:
			return fmt.Sprintf("process %d would keep its memory on GPU %d", pids[0], i)
		}
	}
	return ""
}

// awaitVacant waits until no processes but those of other jobs that run are left on a GPU of an ended
// worker, and reports whether there are none. It is called before the end is reported, which frees
// the GPU for other jobs. A GPU that keeps a process is taken out of use until the process is gone.
func (g *nodeGPUs) awaitVacant(ctx context.Context, index int) bool {
	all := g.all()
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
func (g *nodeGPUs) awaitNoProcesses(ctx context.Context, uuid string) string {
	ctx, cancel := context.WithTimeout(ctx, gpuPatience)
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
		t := time.NewTimer(gpuPollInterval)
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
func (g *nodeGPUs) leftovers(ctx context.Context, uuid string) ([]int, error) {
	pids, err := g.source.Processes(ctx, uuid)
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return g.runsHere != nil && g.runsHere(pid) }), err
}

func (g *nodeGPUs) setOccupied(uuid, problem string) {
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
func (g *nodeGPUs) recheckOccupied(ctx context.Context) {
	g.mu.Lock()
	uuids := slices.Collect(maps.Keys(g.occupied))
	g.mu.Unlock()
	for _, uuid := range uuids {
		if pids, err := g.leftovers(ctx, uuid); err == nil && len(pids) == 0 {
			g.setOccupied(uuid, "")
		}
	}
}
