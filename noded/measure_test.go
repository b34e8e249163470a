package noded

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/report"
)

// gpuScene is a scene on a node with two GPUs.
func gpuScene(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	files := t.TempDir()
	scene(t, func(t *testing.T, w *world) {
		w.kill()
		w.gpus = []gpu.Device{{GPU: model.GPU{UUID: "GPU-a", Healthy: true}}, {GPU: model.GPU{UUID: "GPU-b", Healthy: true}}}
		w.progressOf = map[container.ID]string{}
		for job := range int64(4) {
			w.progressOf[wid(job)] = filepath.Join(files, fmt.Sprint(job))
		}
		w.start()
		story(t, w)
	})
}

// sharer gives the node a worker with its first GPU that may share it.
func (w *world) sharer(id container.ID) *assigned {
	a := w.assign(id, true)
	w.change(func() {
		a.GPUs, a.Nodes = []int{0}, []string{"n1"}
		a.Request.Active.GPUs = model.WholeGPU
		a.Spec = &jobspec.Job{Preemption: &jobspec.Preemption{Mode: jobspec.PreemptSuspend},
			Groups: []jobspec.Group{{Count: 1, Tasks: []jobspec.Task{{}}}}}
	})
	return a
}

// train lets time pass in which jobs make steps, a number of each every five seconds.
func (w *world) train(d time.Duration, steps map[container.ID]int) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(5 * time.Second)
		for id, n := range steps {
			w.makeSteps(id, n)
		}
	}
	synctest.Wait()
}

// makeSteps has a job report that it has made so many more steps.
func (w *world) makeSteps(id container.ID, n int) {
	w.t.Helper()
	path := w.progressOf[id]
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	last := 0
	if begin := bytes.LastIndexByte(text, '{'); begin >= 0 {
		if _, err := fmt.Sscanf(string(text[begin:]), `{"step":%d}`, &last); err != nil {
			w.t.Fatal(err)
		}
	}
	next := path + ".next" // so that nothing is read before it has the bubble's time
	if err := os.WriteFile(next, fmt.Appendf(text, "{\"step\":%d}\n", last+n), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(os.Chtimes(next, time.Time{}, time.Now()), os.Rename(next, path)); err != nil {
		w.t.Fatal(err)
	}
}

// reported returns what was reported of measures since the last call.
func (w *world) reported() []model.WorkerReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.measures
	w.measures = nil
	return out
}

// uses is a GPU that works for so many thousandths of the time, with so much memory.
func uses(use, memory int64) func(string) gpu.Use {
	return func(string) gpu.Use { return gpu.Use{Utilisation: use, Memory: memory} }
}

// TestProfileBySteps shows that a profile is reported once, as soon as it is known. The start-up
// time of the program does not count.
func TestProfileBySteps(t *testing.T) {
	gpuScene(t, func(t *testing.T, w *world) {
		w.change(func() { w.usage = uses(0, 0) })
		w.sharer(wid(1))
		settle(2 * time.Minute)
		w.change(func() { w.usage = uses(700, 3<<30) })
		w.train(15*time.Second, map[container.ID]int{wid(1): 10})
		w.change(func() { w.usage = uses(700, 2<<30) })
		w.train(15*time.Second, map[container.ID]int{wid(1): 10})
		if got := w.reported(); len(got) != 0 {
			t.Fatalf("too early: %+v", got)
		}
		w.train(15*time.Second, map[container.ID]int{wid(1): 10})
		got := w.reported()
		if len(got) != 1 || got[0].Profile == nil || got[0].State != model.WorkerRunning {
			t.Fatalf("reported is %+v", got)
		}
		if p := *got[0].Profile; p.Memory != 3<<30 || p.Utilisation != 700 || p.Rate != 2000 {
			t.Errorf("the profile is %+v", p)
		}
		w.mu.Lock()
		calls := w.usageCalls
		w.mu.Unlock()
		w.train(time.Minute, map[container.ID]int{wid(1): 30})
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.measures) != 0 || w.usageCalls > calls+61 { // one a second, for what it uses in all
			t.Errorf("then %+v, and the GPU was sampled %d times", w.measures, w.usageCalls-calls)
		}
	})
}

// TestProfileByRhythm shows that the rhythm of the GPU stands in for steps that a job does not
// report.
func TestProfileByRhythm(t *testing.T) {
	const period = 0.8
	rhythm := func(string) gpu.Use {
		_, phase := math.Modf(float64(time.Now().UnixMilli()) / 1000 / period)
		u := gpu.Use{Utilisation: 900, Memory: 5 << 30}
		if phase > 0.7 {
			u = gpu.Use{Utilisation: 100, Memory: 1 << 30}
		}
		return u
	}
	gpuScene(t, func(t *testing.T, w *world) {
		w.change(func() { w.usage = uses(0, 0) })
		w.sharer(wid(1))
		settle(time.Minute)
		w.change(func() { w.usage = rhythm })
		settle(25 * time.Second)
		if got := w.reported(); len(got) != 0 {
			t.Fatalf("too early: %+v", got)
		}
		settle(15 * time.Second)
		got := w.reported()
		if len(got) != 1 || got[0].Profile == nil {
			t.Fatalf("reported is %+v", got)
		}
		p := *got[0].Profile
		if math.Abs(float64(p.Rate)*period/1000-1) > 0.02 || p.Utilisation < 600 || p.Utilisation > 720 || p.Memory != 5<<30 {
			t.Errorf("the profile is %+v", p)
		}
		w.sharer(wid(2))
		for _, id := range []container.ID{wid(1), wid(2)} {
			w.change(func() { w.allocs[id].Packing = &api.Packing{Share: 500, Number: 1} })
		}
		w.makeSteps(wid(1), 5) // its profile is by its rhythm: steps are of another unit
		w.train(40*time.Second, map[container.ID]int{wid(1): 5})
		for _, r := range w.reported() {
			t.Errorf("without a driver that tells its processes apart: %+v", r)
		}
		w.change(func() {
			w.owners = map[int]container.ID{71: wid(1), 72: wid(2)}
			w.usage = func(string) gpu.Use {
				u := rhythm("")
				one := gpu.Process{PID: 71, Utilisation: u.Utilisation / 2, Memory: u.Memory}
				return gpu.Use{Utilisation: 950, Memory: 6 << 30,
					Processes: []gpu.Process{one, {PID: 72, Utilisation: 100, Memory: 1 << 20}}}
			}
			for _, id := range []container.ID{wid(1), wid(2)} {
				w.allocs[id].Packing = &api.Packing{Share: 500, Number: 2}
			}
		})
		w.train(40*time.Second, map[container.ID]int{wid(1): 5})
		got = w.reported()
		if len(got) != 1 || got[0].Packed == nil || got[0].Packed.Number != 2 || report.WorkerOf(got[0]) != wid(1) ||
			math.Abs(float64(got[0].Packed.Rate)*period/1000-1) > 0.02 {
			t.Errorf("beside another one: %+v", got)
		}
	})
}

// TestWhatIsNotKnown shows that a job with too few measurements gets no report. Its GPU is sampled
// fast for a bounded time only.
func TestWhatIsNotKnown(t *testing.T) {
	steps := map[container.ID]int{wid(1): 10}
	for name, c := range map[string]struct {
		change func(w *world, a *assigned)
		steps  map[container.ID]int
		most   int // samples in half an hour
	}{
		"no steps, and no rhythm": {func(w *world, _ *assigned) { w.usage = uses(900, 1<<30) }, nil,
			8*700 + 30*60},
		"a GPU that is not used": {func(w *world, _ *assigned) { w.usage = uses(0, 0) }, nil, 31 * 60},
		"its memory": {func(w *world, _ *assigned) {
			w.usage = func(string) gpu.Use { return gpu.Use{Utilisation: 500, Memory: gpu.Unknown} }
		}, steps, 8*700 + 30*60},
		"its utilisation": {func(w *world, _ *assigned) {
			w.usage = func(string) gpu.Use { return gpu.Use{Utilisation: gpu.Unknown, Memory: 5} }
		}, steps, 8*700 + 30*60},
		"a GPU that cannot be asked": {func(w *world, _ *assigned) {
			w.usage = func(string) gpu.Use { return gpu.Use{Problem: "lost"} }
		}, steps, 31 * 60},
		"a driver that hangs":    {func(w *world, _ *assigned) { w.hung = errors.New("it hangs") }, steps, 31 * 6},
		"one that cannot pause":  {func(_ *world, a *assigned) { a.Spec.Preemption = nil }, steps, 31 * 60},
		"two workers":            {func(_ *world, a *assigned) { a.Nodes = []string{"n1", "n2"} }, steps, 31 * 60},
		"two GPUs":               {func(_ *world, a *assigned) { a.GPUs = []int{0, 1} }, steps, 31 * 60},
		"a part of a GPU":        {func(_ *world, a *assigned) { a.Request.Active.GPUs = 500 }, steps, 31 * 60},
		"no GPU":                 {func(_ *world, a *assigned) { a.GPUs, a.Request.Active.GPUs = nil, 0 }, steps, 0},
		"a GPU that is not here": {func(_ *world, a *assigned) { a.GPUs = []int{7} }, steps, 0},
		"one that pauses": {func(_ *world, a *assigned) { a.Switch = &api.Switch{Number: 1, Pause: true} },
			steps, 0},
		"a packing of which the others are not there": {func(_ *world, a *assigned) {
			a.Packing = &api.Packing{Share: 500, Number: 1}
		}, steps, 31 * 60},
		"another one on its GPU": {func(w *world, _ *assigned) {
			b := *w.allocs[wid(1)]
			b.Job = 2
			w.allocs[wid(2)] = &b
		}, steps, 31 * 60},
	} {
		t.Run(name, func(t *testing.T) {
			gpuScene(t, func(t *testing.T, w *world) {
				a := w.sharer(wid(1))
				w.change(func() { w.usageCalls = 0; c.change(w, a) })
				settle(5 * time.Second)
				w.mu.Lock()
				before := w.usageCalls
				w.mu.Unlock()
				w.train(30*time.Minute, c.steps)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.measures) != 0 || w.usageCalls-before > c.most {
					t.Errorf("reported is %+v, after %d samples", w.measures, w.usageCalls-before)
				}
			})
		})
	}
}

// TestPackedRates shows that each job on a GPU has its rate reported once for each change of the
// jobs there. The time of the change itself does not count.
func TestPackedRates(t *testing.T) {
	gpuScene(t, func(t *testing.T, w *world) {
		one, two := wid(1), wid(2)
		w.change(func() { w.usage = uses(300, 1<<30) })
		w.sharer(one)
		w.train(40*time.Second, map[container.ID]int{one: 20})
		if got := w.reported(); len(got) != 1 || got[0].Profile.Rate != 4000 {
			t.Fatalf("alone: %+v", got)
		}
		pack := func(number int) {
			w.change(func() {
				for _, id := range []container.ID{one, two} {
					w.allocs[id].Packing = &api.Packing{Share: 500, Number: number}
				}
			})
		}
		w.sharer(two)
		w.change(func() { w.allocs[two].Switch = &api.Switch{Number: 1, Pause: true} })
		settle(5 * time.Second)
		pack(7)
		w.train(40*time.Second, map[container.ID]int{one: 20}) // the other one is not there yet
		if got := w.reported(); len(got) != 0 {
			t.Fatalf("before the other one is there: %+v", got)
		}
		w.change(func() { w.allocs[two].Switch = &api.Switch{Number: 2} })
		w.train(25*time.Second, map[container.ID]int{one: 15, two: 5})
		if got := w.reported(); len(got) != 0 {
			t.Fatalf("too early: %+v", got)
		}
		check := func(number int, rate int64) {
			t.Helper()
			got := map[container.ID]model.PackedRate{}
			for _, r := range w.reported() {
				if _, twice := got[report.WorkerOf(r)]; twice || r.Packed == nil {
					t.Errorf("reported is %+v", r)
					continue
				}
				got[report.WorkerOf(r)] = *r.Packed
			}
			if got[one] != (model.PackedRate{Number: number, Rate: rate}) ||
				got[two] != (model.PackedRate{Number: number, Rate: 1000}) {
				t.Errorf("reported is %+v", got)
			}
		}
		w.train(60*time.Second, map[container.ID]int{one: 15, two: 5})
		check(7, 3000)
		pack(8)
		w.train(60*time.Second, map[container.ID]int{one: 25, two: 5})
		check(8, 4000) // no more than alone
		w.change(func() { w.allocs[one].Packing, w.allocs[two].gone = nil, true })
		w.train(60*time.Second, map[container.ID]int{one: 20})
		if got := w.reported(); len(got) != 0 {
			t.Errorf("alone again: %+v", got)
		}
	})
}

// TestUsage shows that the usage of a worker is reported with its end. Its pauses and the usage of
// others do not count.
func TestUsage(t *testing.T) {
	gpuScene(t, func(t *testing.T, w *world) {
		started := time.Now()
		busy := func() int64 { // thousandths: 400 for a minute, then 800
			if time.Since(started) < time.Minute {
				return 400
			}
			return 800
		}
		w.owners = map[int]container.ID{71: wid(1), 72: wid(2)}
		w.change(func() {
			w.cpu = func(container.ID) time.Duration { return 3 * time.Since(started) }
			w.usage = func(string) gpu.Use {
				return gpu.Use{Utilisation: busy(), Memory: 9 << 30, Processes: []gpu.Process{
					{PID: 71, Memory: busy() << 20, Utilisation: 100}, {PID: 72, Memory: 1 << 30, Utilisation: 600}}}
			}
		})
		a := w.sharer(wid(1))
		settle(2 * time.Minute)
		w.change(func() { a.Switch = &api.Switch{Number: 1, Pause: true} })
		settle(10 * time.Minute)
		w.change(func() { a.Switch = &api.Switch{Number: 2} })
		settle(time.Minute)
		now, runs := w.life.agent.measure.UsageNow(wid(1))
		if !runs || now.CPUMS < 3*13*60_000 || now.SystemMS != now.CPUMS/10 || now.PeakCores != 3000 ||
			now.Memory < 3*13*60<<20 || now.PeakMemory != now.Memory || now.GPU < 660 || now.GPU > 675 {
			t.Errorf("by now it has used %+v", now)
		}
		if _, runs := w.life.agent.measure.UsageNow(wid(9)); runs {
			t.Error("a worker runs that does not exist")
		}
		w.leave(wid(1), container.Exit{UserMS: 5000, SystemMS: 600, PeakMem: 7 << 20})
		settle(time.Minute)
		if a.result == nil {
			t.Fatal("it has no result")
		}
		u := a.result.Usage
		if u.CPUMS < 3*12*60_000 || u.SystemMS != u.CPUMS/10 || u.PeakCores != 3000 || u.PeakMemory != 7<<20 ||
			u.GPU < 660 || u.GPU > 675 || u.PeakGPU != 800 || u.PeakGPUMemory != 800<<20 || u.GPUMemory < 660<<20 ||
			u.GPUMemory > 675<<20 {
			t.Errorf("it has used %+v", u)
		}
		b := w.sharer(wid(2))
		c := w.sharer(wid(3))
		w.change(func() { w.cpu = nil })
		settle(time.Minute)
		for _, id := range []container.ID{wid(2), wid(3)} {
			w.leave(id, container.Exit{UserMS: 5000, SystemMS: 600})
		}
		settle(time.Minute)
		if u := b.result.Usage; u.GPU != 600 || u.PeakGPUMemory != 1<<30 || u.CPUMS != 5600 || u.PeakCores != 0 {
			t.Errorf("one of two has used %+v", u)
		}
		if u := c.result.Usage; u != (model.Usage{CPUMS: 5600, SystemMS: 600}) {
			t.Errorf("the other one has used %+v", u)
		}
	})
}

// TestMeasuresAreKept shows that a measure is neither lost nor replaced when the daemon is killed
// before the controllers have it. A turn that is too short gives none.
func TestMeasuresAreKept(t *testing.T) {
	gpuScene(t, func(t *testing.T, w *world) {
		id := wid(1)
		w.change(func() { w.usage = uses(300, 1<<30) })
		w.sharer(id)
		for turn := range 3 {
			w.train(20*time.Second, map[container.ID]int{id: 20})
			w.change(func() { w.allocs[id].Switch = &api.Switch{Number: 2*turn + 1, Pause: true} })
			settle(40 * time.Second)
			w.change(func() { w.allocs[id].Switch = &api.Switch{Number: 2*turn + 2} })
		}
		if got := w.reported(); len(got) != 0 {
			t.Fatalf("in turns of 20 s: %+v", got)
		}
		settle(5 * time.Second)
		w.change(func() { w.down = true })
		w.train(40*time.Second, map[container.ID]int{id: 20})
		w.kill()
		w.start()
		w.train(40*time.Second, map[container.ID]int{id: 5})
		w.change(func() { w.down = false })
		settle(time.Minute)
		got := w.reported()
		if len(got) != 1 || got[0].Profile.Rate != 4000 || got[0].Profile.Memory != 1<<30 {
			t.Fatalf("reported is %+v", got)
		}
		w.kill()
		w.start()
		w.train(2*time.Minute, map[container.ID]int{id: 5})
		for _, r := range w.reported() {
			if *r.Profile != *got[0].Profile {
				t.Errorf("then another profile: %+v", r.Profile)
			}
		}
	})
}
