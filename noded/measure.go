package noded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/profile"
	"github.com/rota-hpc/rota/noded/progress"
	"github.com/rota-hpc/rota/noded/report"
)

// gpuSharing describes how the GPU of a worker is shared. A rate counts for one sharing only. The
// zero value says that nothing can be measured now.
type gpuSharing struct {
	measurable bool // it runs, and so do all others on its GPU
	number     int  // of the packing; 0: it has the GPU for itself
	turn       int  // number of its last suspension or resumption
}

// measuring is the measurement in progress of a worker that may share its GPU. The agent's mutex
// guards it.
type measuring struct {
	gpuSharing
	since   time.Time          // when it began
	steps   progress.RateMeter // since then
	stepped bool               // a step was reported since then
	rate    int64              // of steps, since then; 0: not known
	reports bool               // the attempt reports steps, so that its rhythm does not matter
	window  profile.Window
	pace    profile.Pace
}

// begin starts a new measurement if the sharing has changed. Within a packing the pace of sampling
// goes on.
func (m *measuring) begin(s gpuSharing, now time.Time) {
	if s == m.gpuSharing {
		return
	}
	if s.number != m.number {
		m.pace = profile.Pace{}
	}
	m.gpuSharing, m.since, m.steps, m.stepped, m.rate = s, now, progress.RateMeter{}, false, 0
	m.window.Restart(now.UnixMilli())
}

// reportStep takes a reported training step. A step from before the present sharing is ignored.
func (w *worker) reportStep(step int64, written time.Time) {
	m := &w.measuring
	m.reports = true
	if !m.measurable || written.Before(m.since) || w.byRhythm() {
		return
	}
	if rate, known := m.steps.Measure(step, written, model.ProfileAfterMS*time.Millisecond); known {
		m.rate = rate
	}
	if !m.stepped { // samples from before the first step may show the program starting
		m.stepped = true
		m.window.Restart(time.Now().UnixMilli())
	}
}

// sharingOf returns how the GPU of a worker is shared now. It is measurable only if the GPU's
// present holders are exactly the packing that the controllers ordered: no job is about to come, to
// leave or to pause. The agent's mutex is held.
func (a *Agent) sharingOf(w *worker) gpuSharing {
	if !w.Runs() {
		return gpuSharing{}
	}
	s := gpuSharing{measurable: true}
	if p := w.Desired.Packing; p != nil {
		s.number = p.Number
	}
	if w.Desired.Switch != nil {
		s.turn = w.Desired.Switch.Number
	}
	others := 0
	for _, o := range a.workers {
		switch {
		case o == w || !o.Exists():
		case o.Desired == nil:
			return gpuSharing{} // it is unwanted and about to be killed
		case !slices.Contains(o.Desired.GPUs, w.Desired.GPUs[0]) || o.Paused():
		case !o.Runs() || o.Desired.Packing == nil || o.Desired.Packing.Number != s.number:
			return gpuSharing{} // another job comes or leaves
		default:
			others++
		}
	}
	if (others > 0) != (w.Desired.Packing != nil) {
		return gpuSharing{}
	}
	return s
}

// due reports whether a measurement is missing: the profile of a job alone, or its rate in the
// present packing. Each is measured once.
func (w *worker) due() bool {
	m := &w.measuring
	switch known := w.Entry.Measures; {
	case !m.measurable:
		return false
	case m.number == 0:
		return known == nil || known.Profile == nil
	case known == nil:
		return true
	default:
		return known.Packed == nil || known.Packed.Number != m.number
	}
}

// byRhythm reports whether a worker's rate is taken from the rhythm of its GPU. That is for jobs
// that report no steps. Once a profile exists its method is kept.
func (w *worker) byRhythm() bool {
	if known := w.Entry.Measures; known != nil && known.Profile != nil {
		return known.Rhythm
	}
	return w.measuring.number == 0 && !w.measuring.reports
}

// measures returns the measures of a worker with the missing one filled in; news is false while
// that one is not certain yet.
func (w *worker) measures() (next journal.Measures, news bool) {
	if !w.due() {
		return journal.Measures{}, false
	}
	if w.Entry.Measures != nil {
		next = *w.Entry.Measures
	}
	m := &w.measuring
	rate, rhythm := m.rate, w.byRhythm()
	if rhythm {
		rate, _ = m.window.Rhythm()
	}
	if m.number != 0 {
		ok := rate > 0
		// No job is faster beside others than alone. A rhythm that says so by more than a tenth was
		// mistaken; a smaller excess is noise and is cut off.
		if p := next.Profile; p != nil {
			ok = ok && (!rhythm || rate <= p.Rate*11/10)
			rate = min(rate, p.Rate)
		}
		next.Packed = &model.PackedRate{Number: m.number, Rate: rate}
		return next, ok
	}
	use, known := m.window.Mean()
	memory, also := m.window.Peak()
	next.Profile, next.Rhythm = &model.Profile{Utilisation: use, Memory: jobspec.Bytes(memory), Rate: rate}, rhythm
	return next, rate > 0 && known && also
}

// recordMeasures writes a new measure of a worker to the journal and queues it for a report. The
// journal comes first, without the mutex because it waits for the disk; the worker is looked up
// again afterwards.
func (a *Agent) recordMeasures(id container.ID) {
	a.mu.Lock()
	w := a.workers[id]
	if w == nil || !w.MayShare() {
		a.mu.Unlock()
		return
	}
	w.measuring.begin(a.sharingOf(w), time.Now())
	next, news := w.measures()
	a.mu.Unlock()
	if !news {
		return
	}
	if err := a.Journal.Append(journal.Record{Op: journal.Measured, ID: id.String(), Measures: &next}); err != nil {
		a.logOf(id).Warn("cannot write to the journal what was measured; it will be tried again", "err", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w = a.workers[id]; w != nil && w.Entry.Final == nil {
		w.Entry.Measures = &next
		a.queueMeasures(w)
	}
}

// queueMeasures queues the measures of a worker for a report. A repeated report changes nothing.
// The mutex is held.
func (a *Agent) queueMeasures(w *worker) {
	known := w.Entry.Measures
	if known == nil || w.Kept {
		return
	}
	if known.Profile != nil && known.Packed == nil {
		r := report.Of(w.ID, model.WorkerRunning)
		r.Profile = known.Profile
		a.out.PutFinding(r)
	}
	if known.Packed != nil {
		r := report.Of(w.ID, model.WorkerRunning)
		r.Packed = known.Packed
		a.out.PutFinding(r)
	}
}

const (
	slowSamples = time.Second      // between two samples of a GPU, outside of bursts
	cpuSamples  = 10 * time.Second // between two samples of processor time
	usagePause  = 10 * time.Second // after a sample that failed: the driver may hang
)

// sampleUsage samples the processor time and the GPUs of all workers until ctx ends.
func (a *Agent) sampleUsage(ctx context.Context) error {
	timer := time.NewTimer(sampleInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		a.sampleCPU()
		timer.Reset(a.sampleOnce(ctx))
	}
}

// sampleCPU samples the processor time of all running workers, every cpuSamples.
func (a *Agent) sampleCPU() {
	now := time.Now()
	if a.Used == nil || now.Sub(a.cpuSampled) < cpuSamples {
		return
	}
	a.cpuSampled = now
	a.mu.Lock()
	var running []container.ID
	for id, w := range a.workers {
		if w.InUse(time.Now()) {
			running = append(running, id)
		}
	}
	a.mu.Unlock()
	for _, id := range running {
		used, err := a.Used(id)
		a.mu.Lock()
		if w := a.workers[id]; w != nil && err == nil {
			w.used.AddCPU(time.Now().UnixMilli(), used.CPU.Milliseconds(), used.System.Milliseconds())
		}
		a.mu.Unlock()
	}
}

// target is a worker whose GPUs are to be sampled.
type target struct {
	id    container.ID
	uuids []string
	fast  bool // as a part of a burst
}

// sampleOnce samples the GPUs that are due, and returns the pause until the next sample.
func (a *Agent) sampleOnce(ctx context.Context) time.Duration {
	// 1. Choose, and ask the driver once for every GPU, however many workers share it.
	targets, again := a.targets(time.Now())
	if len(targets) == 0 {
		return again
	}
	var uuids []string
	for _, t := range targets {
		for _, uuid := range t.uuids {
			if !slices.Contains(uuids, uuid) {
				uuids = append(uuids, uuid)
			}
		}
	}
	usage, err := a.GPUs.Usage(ctx, uuids...)
	if ctx.Err() != nil {
		return again
	}
	if err == nil && len(usage) != len(uuids) {
		err = fmt.Errorf("%d GPUs were asked for, and %d answered", len(uuids), len(usage))
	}
	byUUID := map[string]*gpu.Usage{}
	if err == nil {
		for i, uuid := range uuids {
			byUUID[uuid] = &usage[i]
		}
		a.addUsage(targets, byUUID, time.Now())
	}
	// 2. Look for workers that use more GPU memory than they have. This warns once if the driver does
	// not tell, and again after it has told in between.
	unseen, whole := a.checkGPUMemory(byUUID, err)
	if unseen != nil && !a.silent {
		a.Log.Warn("cannot see what jobs use of GPUs", "err", unseen)
	}
	if unseen != nil || whole {
		a.silent = unseen != nil
	}
	if err != nil {
		return usagePause
	}
	return again
}

// targets returns the workers whose GPUs are due now, and the pause until the next sample. A paused
// worker is not sampled.
func (a *Agent) targets(now time.Time) (list []target, again time.Duration) {
	gpus := a.gpus.All()
	a.mu.Lock()
	defer a.mu.Unlock()
	again = sampleInterval
	for id, w := range a.workers {
		if !w.InUse(time.Now()) || w.Desired == nil || len(w.Desired.GPUs) == 0 ||
			slices.Max(w.Desired.GPUs) >= len(gpus) {
			continue
		}
		if w.Pauses() {
			w.used.Pause()
			if a.jobSteps.Manager != nil {
				a.jobSteps.Local.PauseGPU(id)
			}
			continue
		}
		again = min(again, slowSamples)
		fast := w.sampledFast(now)
		if fast {
			again = min(again, time.Duration(profile.Jitter(rand.Float64()))*time.Millisecond)
		}
		// A tenth of tolerance: a sample that comes a little early must not wait for another round.
		if fast || now.Sub(w.sampled) >= slowSamples*9/10 {
			w.sampled = now
			t := target{id: id, fast: fast}
			for _, n := range w.Desired.GPUs {
				t.uuids = append(t.uuids, gpus[n].UUID)
			}
			list = append(list, t)
		}
	}
	return list, again
}

// sampledFast reports whether the GPU of a worker is to be sampled at 20 Hz now.
func (w *worker) sampledFast(now time.Time) bool {
	m := &w.measuring
	if !w.MayShare() || !w.due() || m.number != 0 && !w.byRhythm() {
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
func (a *Agent) addUsage(targets []target, usage map[string]*gpu.Usage, now time.Time) {
	owners, all := a.ownersOf(usage, now), a.gpus.All()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range targets {
		w := a.workers[t.id]
		if w == nil || w.Desired == nil { // the worker has gone meanwhile
			continue
		}
		alone := a.alone(w)
		var use, memory int64
		for _, uuid := range t.uuids {
			u, m := useOf(func(of container.ID) bool { return of.OfWorker() == t.id }, usage[uuid], owners, alone,
				a.owners.told)
			use, memory = sum(use, u), sum(memory, m)
		}
		if use != gpu.Unknown {
			use /= int64(len(t.uuids))
		}
		w.used.AddGPU(now.UnixMilli(), use, memory)
		if w.due() && w.MayShare() {
			w.measuring.window.Add(now.UnixMilli(), use, memory, t.fast)
		}
		a.addStepUsage(t.id, usage, owners, all, alone, now)
	}
}

// addStepUsage adds a sample of the GPUs to the steps beside a worker. alone says that no other
// worker is on these GPUs. The mutex is held.
func (a *Agent) addStepUsage(worker container.ID, usage map[string]*gpu.Usage, owners map[int]container.ID,
	all []model.GPU, alone bool, now time.Time,
) {
	if a.jobSteps.Manager == nil {
		return
	}
	parts := a.jobSteps.Local.OnGPUs(worker)
	on := map[int]int{} // how many parts have a GPU
	for _, gpus := range parts {
		for _, n := range gpus {
			on[n]++
		}
	}
	for id, gpus := range parts {
		var use, memory int64
		for _, n := range gpus {
			if n >= len(all) || usage[all[n].UUID] == nil {
				use, memory = gpu.Unknown, gpu.Unknown
				break
			}
			// A step has a GPU for itself if no other worker, no other step and no known process of
			// another container is on it. Then the GPU's own figures are the step's.
			u := usage[all[n].UUID]
			sole := alone && on[n] == 1 && !slices.ContainsFunc(u.Processes, func(p gpu.Process) bool {
				of, known := owners[p.PID]
				return known && of != id
			})
			one, m := useOf(func(of container.ID) bool { return of == id }, u, owners, sole, a.owners.told)
			use, memory = sum(use, one), sum(memory, m)
		}
		if use != gpu.Unknown {
			use /= int64(len(gpus))
		}
		a.jobSteps.Local.AddGPU(id, now.UnixMilli(), use, memory)
	}
}

// alone reports whether no other container is on the GPUs of a worker. The agent's mutex is held.
func (a *Agent) alone(w *worker) bool {
	for _, o := range a.workers {
		if o != w && o.Exists() && (o.Desired == nil || !o.Paused() &&
			slices.ContainsFunc(o.Desired.GPUs, func(n int) bool { return slices.Contains(w.Desired.GPUs, n) })) {
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
// containers. Only sampleUsage calls it.
func (a *Agent) ownersOf(usage map[string]*gpu.Usage, now time.Time) map[int]container.ID {
	o := &a.owners
	if now.Sub(o.since) >= ownersFor {
		o.of, o.since = map[int]container.ID{}, now
	}
	for _, u := range usage {
		for _, p := range u.Processes {
			o.told = o.told || p.Memory != gpu.Unknown
			if _, known := o.of[p.PID]; !known {
				if id, of := a.Runtime.ContainerOf(p.PID); of {
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
// processes: then a holder without a process uses no memory, and memory in use is left over from a
// process that has just ended.
func useOf(
	its func(container.ID) bool, u *gpu.Usage, owners map[int]container.ID, alone, told bool,
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
