package noded

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

// gpuMemoryGrace is for how long a worker may use more of a GPU's memory than it declared, from when
// it is told: enough to drop a cache, and short, since its neighbours cannot have that memory.
const gpuMemoryGrace = 10 * time.Second

// gpuLimit is how much of a GPU's memory a worker may use, in bytes.
type gpuLimit struct {
	worker *worker
	index  int // of the GPU
	uuid   string
	memory int64
}

// memoryOfShare returns how much of the memory of its GPU a worker may use, 0 if it has GPUs as a
// whole or declared nothing.
func memoryOfShare(d *api.Alloc, all []model.GPU) jobspec.Bytes {
	if d == nil || d.Spec == nil || d.Group >= len(d.Spec.Groups) || len(d.GPUs) != 1 || d.GPUs[0] >= len(all) {
		return 0
	}
	var sum jobspec.Bytes
	for i := range d.Spec.Groups[d.Group].Tasks {
		sum += d.Spec.Groups[d.Group].Tasks[i].Resources.GPU.MemoryOn(all[d.GPUs[0]].Memory)
	}
	return sum
}

// checkGPUMemory compares what each worker with a part of a GPU uses of its memory with what it
// declared. usage is the sample; it is empty if err is set. A worker that uses more is told, and killed
// if that goes on. It returns err, or a problem with the GPU of such a worker, and whether the sample
// has all of their GPUs.
func (a *Agent) checkGPUMemory(usage map[string]*gpu.Usage, err error) (problem error, whole bool) {
	problem, whole = err, true
	for _, l := range a.gpuLimits() {
		u := usage[l.uuid]
		switch {
		case err != nil:
			a.deferEviction(l)
		case u == nil:
			whole = false // it was not sampled now
		case u.Problem != "":
			problem = fmt.Errorf("GPU %s: %s", l.uuid, u.Problem)
			a.deferEviction(l)
		default:
			a.judgeGPUMemory(l, usedBy(a.Runtime, l.worker.ID, u.Processes))
		}
	}
	return problem, whole
}

// deferEviction is for a worker of which nothing is known now: it is not killed for what it used before.
func (a *Agent) deferEviction(l gpuLimit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := &l.worker.Excess; e.Message != "" {
		if least := time.Now().Add(2 * usagePause); e.Until.Before(least) {
			e.Until = least
		}
	}
}

// usedBy adds up the memory that the processes of a worker and its steps use of a GPU. What the driver does
// not tell counts as nothing.
func usedBy(r container.Runtime, id container.ID, processes []gpu.Process) (sum int64) {
	for _, p := range processes {
		if p.Memory == gpu.Unknown {
			continue
		}
		if of, ok := r.ContainerOf(p.PID); ok && of.OfWorker() == id {
			sum += p.Memory
		}
	}
	return sum
}

// gpuLimits returns the limits of the running workers that have a part of a GPU.
func (a *Agent) gpuLimits() (list []gpuLimit) {
	all := a.gpus.All()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.workers {
		if w.Actual != container.Running || w.Kept {
			continue
		}
		if memory := memoryOfShare(w.Desired, all); memory > 0 {
			n := w.Desired.GPUs[0]
			list = append(list, gpuLimit{w, n, all[n].UUID, int64(memory)})
		}
	}
	return list
}

// judgeGPUMemory notes whether a worker uses more of a GPU's memory than it may. An action
// follows.
func (a *Agent) judgeGPUMemory(l gpuLimit, used int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := l.worker
	if a.workers[w.ID] != w {
		return // it was dropped meanwhile
	}
	if !w.judged {
		w.judged, w.Warned = true, w.recovered // the last daemon may have written a notice
	}
	switch {
	case used <= l.memory:
		w.Excess = reconcile.Excess{}
	case w.Excess.Message == "":
		w.Excess.Until = time.Now().Add(gpuMemoryGrace)
		fallthrough
	default:
		w.Excess.Message = fmt.Sprintf("it uses %s of the memory of GPU %d and declared %s", sizeText(used), l.index,
			sizeText(l.memory))
	}
	a.reconcile(w)
}

// sizeText writes a size in MiB, rounded up, so that what is too much looks like it.
func sizeText(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// runsHere reports whether a process belongs to a container that has not ended, or is a
// server of MPS, which is in none.
func (a *Agent) runsHere(pid int) bool {
	id, ok := a.Runtime.ContainerOf(pid)
	if !ok {
		return a.Serves != nil && a.Serves(pid)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id.OfWorker()]
	return w != nil && w.Exists() && w.Entry.Final == nil
}
