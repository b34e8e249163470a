package noded

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
)

const (
	careEvery    = 10 * time.Second // how often the health of the GPUs is looked at
	gpuPatience  = 5 * time.Second  // for processes to leave a GPU after their container has ended
	gpuPollEvery = 100 * time.Millisecond
)

// care watches the health of the GPUs, and registers the node anew when it changes.
func (a *Agent) care(ctx context.Context) error {
	tick := time.NewTicker(careEvery)
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

// Inventory reads the GPUs for the first time; without them the node is not registered.
func (a *Agent) Inventory(ctx context.Context) error {
	i, err := a.GPUs.Inventory(ctx)
	if err != nil {
		return fmt.Errorf("read GPUs: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gpus = i
	return nil
}

// refreshGPUs reads the GPUs again. One that is gone, or all when the driver does not answer, stay in the inventory as unwell,
// because jobs refer to them by their index.
func (a *Agent) refreshGPUs(ctx context.Context) {
	if a.gpuCount() == 0 {
		return
	}
	now, err := a.GPUs.Inventory(ctx)
	if ctx.Err() != nil {
		return
	}
	a.recheckSick(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.healthNow()
	found := map[string]cluster.GPU{}
	for _, d := range now.Devices {
		found[d.UUID] = d.GPU
	}
	for n := range a.gpus.Devices {
		g := &a.gpus.Devices[n].GPU
		if f, ok := found[g.UUID]; ok {
			g.Healthy, g.Problem = f.Healthy, f.Problem
			continue
		}
		g.Healthy, g.Problem = false, "it is not there any more"
		if err != nil {
			g.Problem = brief(err)
		}
	}
	a.noteHealth(before)
}

func (a *Agent) gpuCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.gpus.Devices)
}

// healthNow is the inventory with what this daemon has found out itself. The mutex is held.
func (a *Agent) healthNow() []cluster.GPU {
	gpus := a.gpus.GPUs()
	for n := range gpus {
		if problem := a.sick[gpus[n].UUID]; problem != "" && gpus[n].Healthy {
			gpus[n].Healthy, gpus[n].Problem = false, problem
		}
	}
	return gpus
}

// noteHealth has the node registered anew if health is not what it was. The mutex is held.
func (a *Agent) noteHealth(before []cluster.GPU) {
	after := a.healthNow()
	if reflect.DeepEqual(before, after) {
		return
	}
	a.stale = true
	for n, g := range after {
		if before[n] != g {
			a.Log.Warn("the health of a GPU has changed", "gpu", g.UUID, "healthy", g.Healthy, "problem", g.Problem)
		}
	}
}

// checkGPUs makes sure, before a worker's end is reported and others may get its GPUs, that nothing is left on them. A GPU on which
// something stays is taken out of use alone, until it has left.
func (a *Agent) checkGPUs(ctx context.Context, indices []int) {
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
		if problem := a.vacated(ctx, uuid); problem != "" {
			a.setSick(uuid, problem)
			a.registerSick(ctx)
		}
	}
}

// vacated waits until a GPU has no processes, and says what is wrong if it keeps some.
func (a *Agent) vacated(ctx context.Context, uuid string) string {
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
		t := time.NewTimer(gpuPollEvery)
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

func (a *Agent) setSick(uuid, problem string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.healthNow()
	if problem == "" {
		delete(a.sick, uuid)
	} else {
		a.sick[uuid] = problem
	}
	a.noteHealth(before)
}

// registerSick tells the controllers at once: the worker's end, which frees the GPU, is reported next.
func (a *Agent) registerSick(ctx context.Context) {
	if err := a.register(ctx); err != nil {
		a.complain(ctx, "cannot register a GPU as unwell; it will be repeated", err, 0)
	}
}

// recheckSick takes GPUs back that have been vacated since.
func (a *Agent) recheckSick(ctx context.Context) {
	a.mu.Lock()
	var uuids []string
	for uuid := range a.sick {
		uuids = append(uuids, uuid)
	}
	a.mu.Unlock()
	for _, uuid := range uuids {
		if pids, err := a.GPUs.Processes(ctx, uuid); err == nil && len(pids) == 0 {
			a.setSick(uuid, "")
		}
	}
}
