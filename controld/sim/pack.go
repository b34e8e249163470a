package sim

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// device is one GPU, by the position of its node.
type device struct {
	node int32
	gpu  int
}

// enterGPU notes on which GPU a job of one worker with one GPU works, and sets the rates of all
// that share it.
func (e *engine) enterGPU(i int32, gpus []int) {
	r := &e.runs[i]
	r.device = device{-1, 0}
	if len(r.workers) != 1 || len(gpus) != 1 || r.job.Model == "" {
		e.scheduleEnd(i)
		return
	}
	r.device = device{r.workers[0].node, gpus[0]}
	slices.Sort(e.sharing[r.device]) // as the state divides a GPU
	e.sharing[r.device] = append(e.sharing[r.device], i)
	e.setRates(r.device)
}

// leaveGPU notes that a job works on its GPU no more.
func (e *engine) leaveGPU(i int32) {
	r := &e.runs[i]
	on := e.sharing[r.device]
	k := slices.Index(on, i)
	if k < 0 {
		return
	}
	on = slices.Delete(on, k, k+1)
	slices.Sort(on)
	e.sharing[r.device] = on
	e.setRates(r.device)
	r.device = device{-1, 0}
}

// setRates sets the speed of the jobs on a GPU from now on, and schedules their ends and
// measurements.
func (e *engine) setRates(d device) {
	on := e.sharing[d]
	names := make([]string, len(on))
	for k, i := range on {
		names[k] = e.runs[i].job.Model
	}
	rates := e.networks.Packed(names)
	for k, i := range on {
		r := &e.runs[i]
		e.totals.setGPUs(e, r, model.PartOfGPU(k, len(on)))
		if r.from >= never {
			continue // it is about to pause
		}
		at := max(e.now, r.from)
		e.endStretch(r, at)
		e.totals.addLost(r, int64(min(r.from, at)-r.began))
		e.advance(r, at)
		r.from, r.began = at, at
		r.rate = max(1, r.job.Rate(e.layout(r))*rates[k]/1_000_000)
		e.scheduleEnd(i)
		e.agenda.push(event{at: at + model.ProfileAfterMS, kind: measured, job: i, attempt: r.attempt, stretch: r.stretch})
	}
}

// measure has the node of a job report the job's use of its GPU: alone, or beside others.
func (e *engine) measure(i int32) {
	r := &e.runs[i]
	if r.stopped != 0 || r.from >= never {
		return
	}
	a := e.state.Present().Job(r.id).Live()
	w := model.WorkerReport{Job: r.id, Attempt: int(r.attempt), State: model.WorkerRunning}
	n := e.network(r.job)
	memory := e.nodes[r.device.node].GPUs[r.device.gpu].Memory
	switch alone := len(e.sharing[r.device]) == 1; {
	case alone && a.Profile == nil:
		w.Profile = &model.Profile{Utilisation: n.Utilisation, Memory: memory * jobspec.Bytes(n.Memory) / 1000,
			Rate: e.stepsAt(r, r.rate)}
	case !alone && a.Packed():
		w.Packed = &model.PackedRate{Number: a.Packing.Number, Rate: e.stepsAt(r, r.rate)}
	default:
		return
	}
	e.addReport(r.workers[0].node, w)
}

// stepsAt returns how many mini-batches a job does in 1,000 s at a rate.
func (e *engine) stepsAt(r *run, rate int64) int64 {
	return max(1, model.MulDiv(rate, 1_000_000, e.stepOf(r.job)*trace.FullRate))
}
