package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/profile"
	"github.com/rota-hpc/rota/noded/reconcile"
)

const (
	// SlowSamples is the time between two samples of a GPU, outside of bursts.
	SlowSamples = time.Second
	cpuSamples  = 10 * time.Second // between two samples of processor time
	usagePause  = 10 * time.Second // after a sample that failed: the driver may hang
)

// sampleUsage samples the processor time and the GPUs of all workers until ctx ends.
func (m *Meter) sampleUsage(ctx context.Context) error {
	timer := time.NewTimer(Interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		m.sampleCPU()
		timer.Reset(m.sampleGPUs(ctx))
	}
}

// sampleCPU samples the processor time of all running workers, every cpuSamples.
func (m *Meter) sampleCPU() {
	now := time.Now()
	if m.Used == nil || now.Sub(m.cpuSampled) < cpuSamples {
		return
	}
	m.cpuSampled = now
	for _, w := range m.Node.Workers() {
		if !w.InUse(time.Now()) {
			continue
		}
		used, err := m.Used(w.ID)
		if err != nil { // it has ended, or its cgroup does not exist yet
			continue
		}
		workers, unlock := m.lock()
		workers.of(w.ID).used.AddCPU(time.Now().UnixMilli(), used.CPU.Milliseconds(), used.System.Milliseconds())
		unlock()
	}
}

// target is a worker whose GPUs are to be sampled.
type target struct {
	worker *reconcile.Worker
	uuids  []string
	fast   bool // as a part of a burst
}

// sampleGPUs samples the GPUs that are due, and returns the pause until the next sample.
func (m *Meter) sampleGPUs(ctx context.Context) time.Duration {
	// 1. Choose the GPUs that are due.
	all := m.Node.Workers()
	targets, again := m.targets(all, time.Now())
	if len(targets) == 0 {
		return again
	}
	// 2. Ask the driver once for each GPU, however many workers share it.
	usage, err := m.askDriver(ctx, targets)
	if ctx.Err() != nil {
		return again
	}
	// 3. Add the sample to its worker.
	if err == nil {
		m.addUsage(all, targets, usage, time.Now())
	}
	// 4. Look for workers that use more GPU memory than they have. This warns once if the driver does
	// not tell, and again after it has told in between.
	unseen, whole := m.checkGPUMemory(all, usage, err)
	if unseen != nil && !m.silent {
		m.Log.Warn("cannot measure the jobs' usage of GPUs", "err", unseen)
	}
	if unseen != nil || whole {
		m.silent = unseen != nil
	}
	if err != nil {
		return usagePause
	}
	return again
}

// askDriver samples the GPUs of some workers. The result is by UUID, and empty after an error.
func (m *Meter) askDriver(ctx context.Context, targets []target) (map[string]*gpu.Use, error) {
	var uuids []string
	for _, t := range targets {
		for _, uuid := range t.uuids {
			if !slices.Contains(uuids, uuid) {
				uuids = append(uuids, uuid)
			}
		}
	}
	usage, err := m.Driver.Usage(ctx, uuids...)
	if err == nil && len(usage) != len(uuids) {
		err = fmt.Errorf("asked about %d GPUs, but got answers for %d", len(uuids), len(usage))
	}
	byUUID := map[string]*gpu.Use{}
	if err == nil {
		for i, uuid := range uuids {
			byUUID[uuid] = &usage[i]
		}
	}
	return byUUID, err
}

// targets returns the workers whose GPUs are due now, and the pause until the next sample. A paused
// worker is not sampled.
func (m *Meter) targets(all []reconcile.Worker, now time.Time) (list []target, again time.Duration) {
	gpus := m.GPUs.All()
	workers, unlock := m.lock()
	defer unlock()
	again = Interval
	for i := range all {
		w := &all[i]
		if !w.InUse(time.Now()) || w.Desired == nil || len(w.Desired.GPUs) == 0 ||
			slices.Max(w.Desired.GPUs) >= len(gpus) {
			continue
		}
		own := workers.of(w.ID)
		if w.Pauses() {
			own.used.Pause()
			if m.Steps != nil {
				m.Steps.PauseGPU(w.ID)
			}
			continue
		}
		again = min(again, SlowSamples)
		fast := w.MayShare() && own.rates.sampledFast(w.Entry.Measures, now)
		if fast {
			again = min(again, time.Duration(profile.Jitter(rand.Float64()))*time.Millisecond)
		}
		// A tenth of tolerance: a sample that comes a little early must not wait for another round.
		if fast || now.Sub(own.sampled) >= SlowSamples*9/10 {
			own.sampled = now
			t := target{worker: w, fast: fast}
			for _, n := range w.Desired.GPUs {
				t.uuids = append(t.uuids, gpus[n].UUID)
			}
			list = append(list, t)
		}
	}
	return list, again
}

// sampledFast reports whether the GPU of a worker that may share it is to be sampled at 20 Hz now.
func (m *measuring) sampledFast(known *journal.Measures, now time.Time) bool {
	if !m.due(known) || m.number != 0 && !m.byRhythm(known) {
		return false
	}
	fast, begins := m.pace.Fast(now.UnixMilli(), m.window.InUse())
	if begins && !m.stepped { // samples from before the burst may show the program starting
		m.window.Restart(now.UnixMilli())
	}
	return fast
}

// addUsage adds a sample of the GPUs to the totals of the workers, to their measurements and to the
// steps beside them.
func (m *Meter) addUsage(all []reconcile.Worker, targets []target, usage map[string]*gpu.Use, now time.Time) {
	owners, inventory := m.ownersOf(usage, now), m.GPUs.All()
	workers, unlock := m.lock()
	defer unlock()
	for _, t := range targets {
		// 1. Sum up the use of its GPUs. If one is unknown, so is the sum.
		w, sole := t.worker, alone(t.worker, all)
		its := func(of container.ID) bool { return of.OfWorker() == w.ID }
		var use, memory int64
		for _, uuid := range t.uuids {
			one, bytes := useOf(its, usage[uuid], owners, sole, m.owners.told)
			use, memory = sum(use, one), sum(memory, bytes)
		}
		if use != gpu.Unknown {
			use /= int64(len(t.uuids))
		}
		// 2. Add it to the totals, and to a measurement that is missing.
		own := workers.of(w.ID)
		own.used.AddGPU(now.UnixMilli(), use, memory)
		if own.rates.due(w.Entry.Measures) && w.MayShare() {
			own.rates.window.Add(now.UnixMilli(), use, memory, t.fast)
		}
		// 3. The steps beside the worker have totals of their own.
		if m.Steps != nil {
			m.addStepUsage(w.ID, usage, owners, inventory, sole, now)
		}
	}
}

// addStepUsage adds a sample of the GPUs to the steps beside a worker. alone says that no other
// worker is on these GPUs.
func (m *Meter) addStepUsage(worker container.ID, usage map[string]*gpu.Use, owners map[int]container.ID,
	inventory []model.GPU, alone bool, now time.Time,
) {
	parts := m.Steps.OnGPUs(worker)
	on := map[int]int{} // how many parts have a GPU
	for _, gpus := range parts {
		for _, n := range gpus {
			on[n]++
		}
	}
	for id, gpus := range parts {
		var use, memory int64
		for _, n := range gpus {
			if n >= len(inventory) || usage[inventory[n].UUID] == nil {
				use, memory = gpu.Unknown, gpu.Unknown
				break
			}
			// A step has a GPU for itself if no other worker, no other step and no known process of
			// another container is on it. Then the GPU's own figures are the step's.
			u := usage[inventory[n].UUID]
			sole := alone && on[n] == 1 && !slices.ContainsFunc(u.Processes, func(p gpu.Process) bool {
				of, known := owners[p.PID]
				return known && of != id
			})
			one, bytes := useOf(func(of container.ID) bool { return of == id }, u, owners, sole, m.owners.told)
			use, memory = sum(use, one), sum(memory, bytes)
		}
		if use != gpu.Unknown {
			use /= int64(len(gpus))
		}
		m.Steps.AddGPU(id, now.UnixMilli(), use, memory)
	}
}

// alone reports whether no other container is on the GPUs of a worker.
func alone(w *reconcile.Worker, all []reconcile.Worker) bool {
	for i := range all {
		o := &all[i]
		if o.ID != w.ID && o.Exists() && (o.Desired == nil || !o.Paused() && o.Uses(w.Desired.GPUs)) {
			return false
		}
	}
	return true
}

// owners are the containers of processes that use GPUs.
type owners struct {
	of    map[int]container.ID
	since time.Time
	told  bool // the driver has told the memory of a process since the daemon began
}

// ownersFor is how long the container of a process is remembered. Afterwards another process may
// have its number.
const ownersFor = time.Second

// ownersOf returns the containers of the processes on the GPUs, without processes outside of
// containers.
func (m *Meter) ownersOf(usage map[string]*gpu.Use, now time.Time) map[int]container.ID {
	o := &m.owners
	if now.Sub(o.since) >= ownersFor {
		o.of, o.since = map[int]container.ID{}, now
	}
	for _, u := range usage {
		for _, p := range u.Processes {
			o.told = o.told || p.Memory != gpu.Unknown
			if _, known := o.of[p.PID]; !known {
				if id, of := m.ContainerOf(p.PID); of {
					o.of[p.PID] = id
				}
			}
		}
	}
	return o.of
}

// useOf returns the use of a GPU by a worker, or by a part of a step. It sums up the processes, as
// far as the driver knows the use of each. A sole holder has the GPU's own utilisation, and also
// its memory where the memory of the processes is unknown. told says that the driver lists
// processes. Then a holder without a process uses no memory: memory in use is left over from a
// process that has just ended.
func useOf(
	its func(container.ID) bool, u *gpu.Use, owners map[int]container.ID, alone, told bool,
) (use, memory int64) {
	if u.Problem != "" {
		return gpu.Unknown, gpu.Unknown
	}
	n := 0
	for _, p := range u.Processes {
		if owner, known := owners[p.PID]; known && !its(owner) || !known && !alone {
			continue
		}
		n++
		use, memory = sum(use, p.Utilisation), sum(memory, p.Memory)
	}
	if alone {
		use = u.Utilisation
		if n == 0 && !told || memory == gpu.Unknown { // some drivers list no processes
			memory = u.Memory
		}
	}
	// The driver measures each process over a different time, so the sum may exceed the maximum.
	return min(use, maxUtilisation), memory
}

const maxUtilisation = 1000

// sum adds two quantities; if one is unknown, so is the sum.
func sum(all, one int64) int64 {
	if all == gpu.Unknown || one == gpu.Unknown {
		return gpu.Unknown
	}
	return all + one
}
