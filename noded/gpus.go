package noded

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
)

const (
	gpuCheckInterval = 10 * time.Second // between two checks of the GPUs' health
	gpuPatience      = 5 * time.Second  // for processes to leave a GPU after their container has ended
	gpuPollInterval  = 100 * time.Millisecond
)

// watchGPUs checks the health of the GPUs until ctx ends, and has the node registered again when it
// changes.
func (a *Agent) watchGPUs(ctx context.Context) error {
	tick := time.NewTicker(gpuCheckInterval)
	defer tick.Stop()
	for {
		a.refreshGPUs(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// LoadGPUs reads the GPUs for the first time; without them the node is not registered. GPUs that
// the last daemon knew on this boot keep their index, even if the driver does not answer.
func (a *Agent) LoadGPUs(ctx context.Context) error {
	known, err := a.GPUFile.Load()
	if err != nil {
		a.Log.Warn("cannot read which GPUs the last daemon had", "err", err)
	}
	now, err := a.GPUs.Inventory(ctx)
	if err != nil && len(known.Devices) == 0 {
		return fmt.Errorf("read GPUs: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gpus = known.Update(now, err)
	a.saveGPUs()
	return nil
}

// saveGPUs keeps the inventory for the next daemon. A full disk does not stop this one. The mutex
// is held.
func (a *Agent) saveGPUs() {
	if err := a.GPUFile.Save(a.gpus); err != nil {
		a.Log.Error("cannot save the list of GPUs for the next daemon", "err", err)
	}
}

// refreshGPUs reads the GPUs again. If there were none, the driver may have been loaded late.
func (a *Agent) refreshGPUs(ctx context.Context) {
	now, err := a.GPUs.Inventory(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = errors.New(shortMessage(err))
	}
	a.recheckOccupied(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.currentGPUs()
	a.gpus = a.gpus.Update(now, err)
	a.noteGPUChanges(before)
	if len(a.gpus.Devices) > len(before) {
		a.saveGPUs()
	}
}

// allGPUs returns the GPUs of the node, with the health that the driver reported last.
func (a *Agent) allGPUs() []cluster.GPU {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gpus.GPUs()
}

// currentGPUs returns the GPUs of the node with their health, including problems that this daemon
// found itself. The mutex is held.
func (a *Agent) currentGPUs() []cluster.GPU {
	gpus := a.gpus.GPUs()
	for n := range gpus {
		if problem := a.occupied[gpus[n].UUID]; problem != "" && gpus[n].Healthy {
			gpus[n].Healthy, gpus[n].Problem = false, problem
		}
	}
	return gpus
}

// checkGPUsHealthy returns an error if one of the GPUs cannot be used. Controllers do not grant
// such GPUs, but may not know the latest problems yet, such as a process of the previous job that
// is still there.
func (a *Agent) checkGPUsHealthy(indices []int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.currentGPUs()
	for _, i := range indices {
		if i < len(now) && !now[i].Healthy {
			return fmt.Errorf("GPU %d (%s) cannot be used: %s", i, now[i].UUID, now[i].Problem)
		}
	}
	return nil
}

// noteGPUChanges has the node registered again if the health of its GPUs differs from before. The
// mutex is held.
func (a *Agent) noteGPUChanges(before []cluster.GPU) {
	after := a.currentGPUs()
	if reflect.DeepEqual(before, after) {
		return
	}
	a.unregistered = true
	if len(after) > len(before) {
		a.Log.Info("new GPUs found", "gpus", len(after), "before", len(before))
	}
	for n := range before {
		if g := after[n]; before[n] != g {
			a.Log.Warn("the health of a GPU changed", "gpu", g.UUID, "healthy", g.Healthy, "problem", g.Problem)
		}
	}
}

// awaitVacantGPUs waits until no processes are left on the GPUs of an ended worker. It is called
// before the end is reported, which frees the GPUs for other jobs. A GPU that keeps a process is
// taken out of use until the process is gone.
func (a *Agent) awaitVacantGPUs(ctx context.Context, indices []int) {
	for _, n := range indices {
		a.mu.Lock()
		known := n < len(a.gpus.Devices)
		var uuid string
		if known {
			uuid = a.gpus.Devices[n].UUID
		}
		a.mu.Unlock()
		if !known {
			continue
		}
		if problem := a.awaitVacant(ctx, uuid); problem != "" {
			a.setOccupied(uuid, problem)
			a.registerNow(ctx)
		}
	}
}

// awaitVacant waits until a GPU has no processes. It returns the problem if some stay.
func (a *Agent) awaitVacant(ctx context.Context, uuid string) string {
	ctx, cancel := context.WithTimeout(ctx, gpuPatience)
	defer cancel()
	for {
		pids, err := a.GPUs.Processes(ctx, uuid)
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

func (a *Agent) setOccupied(uuid, problem string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.currentGPUs()
	if problem == "" {
		delete(a.occupied, uuid)
	} else {
		a.occupied[uuid] = problem
	}
	a.noteGPUChanges(before)
}

// registerNow registers the node at once, because the end of the worker, which frees the GPU, is
// reported next.
func (a *Agent) registerNow(ctx context.Context) {
	if err := a.register(ctx); err != nil {
		a.logRetry(ctx, "cannot register an unhealthy GPU; it will be tried again", err, 0)
	}
}

// recheckOccupied puts GPUs back into use that have become vacant.
func (a *Agent) recheckOccupied(ctx context.Context) {
	a.mu.Lock()
	var uuids []string
	for uuid := range a.occupied {
		uuids = append(uuids, uuid)
	}
	a.mu.Unlock()
	for _, uuid := range uuids {
		if pids, err := a.GPUs.Processes(ctx, uuid); err == nil && len(pids) == 0 {
			a.setOccupied(uuid, "")
		}
	}
}
