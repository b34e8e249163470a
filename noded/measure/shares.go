package measure

import (
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// MemoryGrace is for how long a worker may use more of a GPU's memory than it declared, from the
// moment it is told. It can drop a cache in that time; its neighbours lack that memory meanwhile.
const MemoryGrace = 10 * time.Second

// gpuLimit is how much of a GPU's memory a worker may use, in bytes.
type gpuLimit struct {
	worker *reconcile.Worker
	index  int // of the GPU
	uuid   string
	memory int64
}

// memoryOfShare returns how much of the memory of its GPU a worker may use, 0 if it has GPUs as a
// whole or declared nothing.
func memoryOfShare(d *api.Alloc, inventory []model.GPU) jobspec.Bytes {
	if d == nil || d.Spec == nil || d.Group >= len(d.Spec.Groups) || len(d.GPUs) != 1 || d.GPUs[0] >= len(inventory) {
		return 0
	}
	var sum jobspec.Bytes
	for i := range d.Spec.Groups[d.Group].Tasks {
		sum += d.Spec.Groups[d.Group].Tasks[i].Resources.GPU.MemoryOn(inventory[d.GPUs[0]].Memory)
	}
	return sum
}

// checkGPUMemory compares each sharing worker's use of GPU memory with its declared share. usage is
// the sample; it is empty if err is set. A worker that uses more is told, and killed if that goes
// on. It returns err, or a problem with the GPU of such a worker, and whether the sample has all of
// their GPUs.
func (m *Meter) checkGPUMemory(all []reconcile.Worker, usage map[string]*gpu.Use, err error) (
	problem error, whole bool,
) {
	problem, whole = err, true
	for _, l := range m.gpuLimits(all) {
		u := usage[l.uuid]
		switch {
		case err != nil:
			m.deferEviction(l)
		case u == nil:
			whole = false // it was not sampled now
		case u.Problem != "":
			problem = fmt.Errorf("GPU %s: %s", l.uuid, u.Problem)
			m.deferEviction(l)
		default:
			m.judgeGPUMemory(l, m.memoryOf(l.worker.ID, u.Processes))
		}
	}
	return problem, whole
}

// gpuLimits returns the limits of the running workers that have a part of a GPU.
func (m *Meter) gpuLimits(all []reconcile.Worker) (list []gpuLimit) {
	inventory := m.GPUs.All()
	for i := range all {
		w := &all[i]
		if w.Actual != container.Running || w.Kept {
			continue
		}
		if memory := memoryOfShare(w.Desired, inventory); memory > 0 {
			n := w.Desired.GPUs[0]
			list = append(list, gpuLimit{w, n, inventory[n].UUID, int64(memory)})
		}
	}
	return list
}

// memoryOf adds up the memory that the processes of a worker and its steps use of a GPU. A process of
// unknown memory counts as nothing.
func (m *Meter) memoryOf(id container.ID, processes []gpu.Process) (sum int64) {
	for _, p := range processes {
		if p.Memory == gpu.Unknown {
			continue
		}
		if of, ok := m.ContainerOf(p.PID); ok && of.OfWorker() == id {
			sum += p.Memory
		}
	}
	return sum
}

// judgeGPUMemory notes whether a worker uses more of a GPU's memory than it may. An action follows.
// While the excess lasts, its deadline stands.
func (m *Meter) judgeGPUMemory(l gpuLimit, used int64) {
	if used <= l.memory {
		m.Node.SetExcess(l.worker.ID, reconcile.Excess{})
		return
	}
	e := l.worker.Excess
	if e.Message == "" {
		e.Until = time.Now().Add(MemoryGrace)
	}
	e.Message = fmt.Sprintf("it uses %s of the memory of GPU %d, but declared %s", sizeText(used), l.index,
		sizeText(l.memory))
	m.Node.SetExcess(l.worker.ID, e)
}

// deferEviction is for a worker whose present use is unknown: it is not killed for its use before.
func (m *Meter) deferEviction(l gpuLimit) {
	e := l.worker.Excess
	if least := time.Now().Add(2 * usagePause); e.Message != "" && e.Until.Before(least) {
		e.Until = least
		m.Node.SetExcess(l.worker.ID, e)
	}
}

// sizeText writes a size in MiB, rounded up, so that an excess is visible.
func sizeText(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }
