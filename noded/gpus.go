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
	gpuCheckInterval = 10 * time.Second // how often the health of the GPUs is looked at
	gpuPatience      = 5 * time.Second  // for processes to leave a GPU after their container has ended
	gpuPollInterval  = 100 * time.Millisecond
)

// care watches the health of the GPUs, and registers the node anew when it changes.
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

// Inventory reads the GPUs for the first time; without them the node is not registered. Those that the last daemon knew on this boot are
// known by the same index, also where the driver does not answer.
func (a *Agent) LoadGPUs(ctx context.Context) error {
	known, err := a.GPUFile.Load()
	if err != nil {
		a.Log.Warn("it is not known which GPUs the last daemon had", "err", err)
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

// remember leaves the inventory for the next daemon. Where the disk is full this one works all the same. The mutex is held.
func (a *Agent) saveGPUs() {
	if err := a.GPUFile.Save(a.gpus); err != nil {
		a.Log.Error("the next daemon may not know which GPUs there are", "err", err)
	}
}

// refreshGPUs reads the GPUs again. Where there were none the driver may have been loaded late.
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

// allGPUs returns the GPUs of the node, with the health that the driver told last.
func (a *Agent) allGPUs() []cluster.GPU {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gpus.GPUs()
}

// healthNow is the inventory with what this daemon has found out itself. The mutex is held.
func (a *Agent) currentGPUs() []cluster.GPU {
	gpus := a.gpus.GPUs()
	for n := range gpus {
		if problem := a.occupied[gpus[n].UUID]; problem != "" && gpus[n].Healthy {
			gpus[n].Healthy, gpus[n].Problem = false, problem
		}
	}
	return gpus
}

// unwell refuses GPUs that nobody can work on. Controllers do not give these out, but may not have heard yet of what was found out last, such as
// that a process of the job before is still there.
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

// noteHealth has the node registered anew if health is not what it was. The mutex is held.
func (a *Agent) noteGPUChanges(before []cluster.GPU) {
	after := a.currentGPUs()
	if reflect.DeepEqual(before, after) {
		return
	}
	a.unregistered = true
	if len(after) > len(before) {
		a.Log.Info("there are new GPUs", "gpus", len(after), "before", len(before))
	}
	for n := range before {
		if g := after[n]; before[n] != g {
			a.Log.Warn("the health of a GPU has changed", "gpu", g.UUID, "healthy", g.Healthy, "problem", g.Problem)
		}
	}
}

// checkGPUs makes sure, before a worker's end is reported and others may get its GPUs, that nothing is left on them. A GPU on which
// something stays is taken out of use alone, until it has left.
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

// vacated waits until a GPU has no processes, and says what is wrong if it keeps some.
func (a *Agent) awaitVacant(ctx context.Context, uuid string) string {
	ctx, cancel := context.WithTimeout(ctx, gpuPatience)
	defer cancel()
	for {
		pids, err := a.GPUs.Processes(ctx, uuid)
		switch {
		case err == nil && len(pids) == 0:
			return ""
		case ctx.Err() != nil && len(pids) > 0:
			return fmt.Sprintf("process %d of an ended job is still on it", pids[0])
		case ctx.Err() != nil:
			return "the driver does not say whether an ended job is still on it"
		}
		t := time.NewTimer(gpuPollInterval)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			if err == nil {
				return fmt.Sprintf("process %d of an ended job is still on it", pids[0])
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

// registerSick tells the controllers at once: the worker's end, which frees the GPU, is reported next.
func (a *Agent) registerNow(ctx context.Context) {
	if err := a.register(ctx); err != nil {
		a.logRetry(ctx, "cannot register a GPU as unwell; it will be repeated", err, 0)
	}
}

// recheckSick takes GPUs back that have been vacated since.
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
