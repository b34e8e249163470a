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

// gpuSharing says how the GPU of a worker is shared. While it stays the same, a rate can be
// measured. The zero value says that nothing can be measured now.
type gpuSharing struct {
	measurable bool // it runs, and all those that share its GPU do
	number     int  // of the packing; 0: it has the GPU for itself
	turn       int  // number of its last suspension or resumption
}

// measuring is what is measured of a worker that may share its GPU. The agent's mutex guards it.
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

// begin begins anew when others come to share the GPU, or leave it.
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

// reportStep notes a step of a worker and when it was reported. One from before the present sharing
// says nothing about it.
func (w *worker) reportStep(step int64, written time.Time) {
	m := &w.measuring
	m.reports = true
	if !m.measurable || written.Before(m.since) || w.byRhythm() {
		return
	}
	if rate, known := m.steps.Measure(step, written, model.ProfileAfterMS*time.Millisecond); known {
		m.rate = rate
	}
	if !m.stepped { // before it the program may have started, or come back
		m.stepped = true
		m.window.Restart(time.Now().UnixMilli())
	}
}

// sharingOf returns how the GPU of a worker is shared now. The agent's mutex is held.
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
			return gpuSharing{} // it is about to be killed
		case !slices.Contains(o.Desired.GPUs, w.Desired.GPUs[0]) || o.Paused():
		case !o.Runs() || o.Desired.Packing == nil || o.Desired.Packing.Number != s.number:
			return gpuSharing{} // it comes or leaves
		default:
			others++
		}
	}
	if (others > 0) != (w.Desired.Packing != nil) {
		return gpuSharing{}
	}
	return s
}

// due reports whether something that the controllers want to know of a worker is not measured yet.
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

// byRhythm reports whether the rate of a worker is that of its GPU's rhythm.
func (w *worker) byRhythm() bool {
	if known := w.Entry.Measures; known != nil && known.Profile != nil {
		return known.Rhythm
	}
	return w.measuring.number == 0 && !w.measuring.reports
}

// measures returns what is known of a worker, once there is something new.
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
		if p := next.Profile; p != nil { // beside others none is faster than alone
			ok = ok && (!rhythm || rate <= p.Rate*11/10) // else its rhythm was taken for another one
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

// recordMeasures writes what was measured of a worker to the journal and queues it for a report.
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

// queueMeasures queues what was measured of a worker for a report. What was reported before changes
// nothing. The mutex is held.
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

// sampleUsage samples what workers use, until ctx ends.
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

// sampleCPU samples the processor time of the workers for which it is time.
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

// sampleOnce samples the GPUs for which it is time, and returns when to do so again.
func (a *Agent) sampleOnce(ctx context.Context) time.Duration {
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

// targets returns the workers whose GPUs are to be sampled now, and when to ask again.
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
	if begins && !m.stepped { // before it the program was starting
		m.window.Restart(now.UnixMilli())
	}
	return fast
}

// addUsage adds to workers what their GPUs do.
func (a *Agent) addUsage(targets []target, usage map[string]*gpu.Usage, now time.Time) {
	owners, all := a.ownersOf(usage, now), a.gpus.All()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range targets {
		w := a.workers[t.id]
		if w == nil || w.Desired == nil { // it has gone meanwhile
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

// addStepUsage adds to the steps beside a worker what their GPUs do. alone is that of the worker. The
// mutex is held.
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

// ownersFor is for how long it is remembered whose a process is: its number may be given to another
// one.
const ownersFor = time.Second

// ownersOf returns the containers of processes; one that is in none is not among them. Only
// sampleUsage calls it.
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

// useOf returns what a worker, or a part of a step, makes of a GPU: the sum of its processes, as far as the
// driver says it of each. If it has the GPU for itself, its utilisation is that of the GPU, and its memory
// too where that of its processes is not known. told says that the driver lists processes: then one that
// has none uses no memory, and what is in use is the rest of one that has just ended.
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
	return min(use, maxUtilisation), memory // that of each process is of a time of its own
}

const maxUtilisation = 1000

// sum adds a quantity to others; one that is not known leaves nothing known.
func sum(all, one int64) int64 {
	if all == gpu.Unknown || one == gpu.Unknown {
		return gpu.Unknown
	}
	return all + one
}
