package jobsteps

import (
	"maps"
	"sync"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/profile"
)

// gpuUse sums up the use of the GPUs of parts that were started since the daemon began.
type gpuUse struct {
	mu     sync.Mutex
	meters map[container.ID]*meter
}

// meter sums up a part's use of its GPUs.
type meter struct {
	gpus    []int // as the machine counts them
	samples int
	totals  profile.Totals
}

// begin begins to sum up the use of a part's GPUs.
func (u *gpuUse) begin(id container.ID, gpus []int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(gpus) > 0 && u.meters[id] == nil {
		u.meters[id] = &meter{gpus: gpus}
	}
}

// forget drops the sums of the parts that match.
func (u *gpuUse) forget(match func(container.ID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.meters, func(id container.ID, _ *meter) bool { return match(id) })
}

// OnGPUs returns the running parts with GPUs beside a worker, and the machine's numbers of those
// GPUs.
func (l *Local) OnGPUs(worker container.ID) map[container.ID][]int {
	running := l.Live(worker)
	l.use.mu.Lock()
	defer l.use.mu.Unlock()
	var parts map[container.ID][]int
	for _, id := range running {
		if m := l.use.meters[id]; m != nil {
			if parts == nil {
				parts = map[container.ID][]int{}
			}
			parts[id] = m.gpus
		}
	}
	return parts
}

// AddGPU adds a sample of the GPUs of a part, see [profile.Totals.AddGPU]. The utilisation in the
// first sample is ignored, because it may cover time before the part.
func (l *Local) AddGPU(id container.ID, now, utilisation, memory int64) {
	l.use.mu.Lock()
	defer l.use.mu.Unlock()
	m := l.use.meters[id]
	if m == nil {
		return
	}
	if m.samples++; m.samples == 1 {
		utilisation = profile.Unknown
	}
	m.totals.AddGPU(now, utilisation, memory)
}

// PauseGPU says that the parts beside a worker pause, see [profile.Totals.Pause].
func (l *Local) PauseGPU(worker container.ID) {
	l.use.mu.Lock()
	defer l.use.mu.Unlock()
	for id, m := range l.use.meters {
		if id.OfWorker() == worker {
			m.totals.Pause()
		}
	}
}

// GPUUse returns a part's use of its GPUs so far, and the number of those GPUs; 0 GPUs: it is
// unknown.
func (l *Local) GPUUse(id container.ID) (used model.Usage, gpus int) {
	l.use.mu.Lock()
	defer l.use.mu.Unlock()
	m := l.use.meters[id]
	if m == nil || m.samples < 2 {
		return used, 0
	}
	u := m.totals.Usage()
	return model.Usage{GPU: u.Utilisation, PeakGPU: u.PeakUtilisation, GPUMemory: jobspec.Bytes(u.Memory),
		PeakGPUMemory: jobspec.Bytes(u.PeakMemory)}, len(m.gpus)
}
