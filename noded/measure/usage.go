package measure

import (
	"encoding/json"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/profile"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// UsageOf returns how much a worker had used until it ended. f has the facts of its end.
func (m *Meter) UsageOf(id container.ID, f *reconcile.Facts) (u model.Usage) {
	workers, unlock := m.lock()
	defer unlock()
	if w := workers[id]; w != nil && f.Entry.Started {
		u = sampled(w.used.Usage())
	}
	extern := f.Extern
	if e := f.Exit; e != nil {
		u.CPUMS, u.PeakMemory = max(u.CPUMS, e.UserMS+e.SystemMS), jobspec.Bytes(max(0, e.PeakMem))
		u.SystemMS, extern = max(u.SystemMS, e.SystemMS), e.Extern
	}
	addExtern(&u, extern)
	return u
}

// addExtern adds the use of processes beside the ranks, which is a part of the whole. The samples
// of a whole may be older, and times may be rounded up or down.
func addExtern(u *model.Usage, extern container.Spent) {
	u.ExternCPUMS, u.ExternSystemMS = extern.UserMS+extern.SystemMS, extern.SystemMS
	u.ExternMemory = jobspec.Bytes(extern.PeakMem)
	u.CPUMS = max(u.CPUMS, u.ExternCPUMS)
	own := min(u.CPUMS-u.ExternCPUMS, max(0, u.SystemMS-u.ExternSystemMS))
	u.SystemMS = u.ExternSystemMS + own
}

// sampled is the summary of a worker's samples.
func sampled(t profile.Sums) model.Usage {
	return model.Usage{CPUMS: t.CPU, SystemMS: t.System, PeakCores: t.PeakCores, GPU: t.Utilisation,
		PeakGPU: t.PeakUtilisation, GPUMemory: jobspec.Bytes(t.Memory), PeakGPUMemory: jobspec.Bytes(t.PeakMemory)}
}

// UsageNow returns how much a worker and its steps have used by now; false if it does not run here.
func (m *Meter) UsageNow(id container.ID) (u api.NodeUsage, runs bool) {
	w, known := m.Node.Worker(id)
	if !known || w.Actual != container.Running || m.Used == nil {
		return u, false
	}
	// 1. The steps beside it. Their cgroups are part of its own.
	used, err := m.Used(id)
	if m.Steps != nil {
		for _, part := range m.Steps.Live(id) {
			of, err := m.Used(part)
			if err != nil { // it has ended, or uses nothing yet
				continue
			}
			now, gpus := m.Steps.GPUUse(part)
			addCgroup(&now, of)
			u.Steps = append(u.Steps, api.NodeStepUsage{Step: part.Step - 1, GPUs: gpus, Usage: now})
		}
	}
	// 2. The samples so far, and the cgroup as it is now.
	workers, unlock := m.lock()
	u.Usage = sampled(workers.of(id).used.Usage())
	unlock()
	if err == nil { // it is no sample: a peak is over ten seconds
		u.CPUMS, u.SystemMS = used.CPU.Milliseconds(), used.System.Milliseconds()
	}
	addExtern(&u.Usage, w.Extern)
	u.Memory, u.PeakMemory = jobspec.Bytes(used.Memory), jobspec.Bytes(max(used.PeakMemory, used.Memory))
	return u, true
}

// addCgroup adds the counters of a cgroup.
func addCgroup(u *model.Usage, of container.Used) {
	u.CPUMS, u.PeakMemory = of.CPU.Milliseconds(), jobspec.Bytes(max(of.PeakMemory, of.Memory))
	u.SystemMS = min(of.System.Milliseconds(), u.CPUMS)
}

// ServeUsage answers GET /v1/usage/{job}.{attempt}.{worker} for controllers: the use of a running
// worker by now.
func (m *Meter) ServeUsage(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || c.Role != string(pki.Controller) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only controllers may read usage here: use rota eff")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	if !ok {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "write /v1/usage/JOB.ATTEMPT.WORKER")
		return
	}
	u, runs := m.UsageNow(id)
	if !runs {
		api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, "worker "+id.String()+" does not run here")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(u) // an error means that the client is gone
}
