package noded

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

// usageOf returns what a worker has used until it ended.
func (a *Agent) usageOf(id container.ID, f *reconcile.Facts) (u model.Usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workers[id]; w != nil && f.Entry.Started {
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

// addExtern adds what processes beside the ranks have used, which is a part of the whole. The samples
// of a whole may be older, and times may be rounded up or down.
func addExtern(u *model.Usage, extern container.Spent) {
	u.ExternCPUMS, u.ExternSystemMS = extern.UserMS+extern.SystemMS, extern.SystemMS
	u.ExternMemory = jobspec.Bytes(extern.PeakMem)
	u.CPUMS = max(u.CPUMS, u.ExternCPUMS)
	own := min(u.CPUMS-u.ExternCPUMS, max(0, u.SystemMS-u.ExternSystemMS))
	u.SystemMS = u.ExternSystemMS + own
}

// sampled is what samples say of a worker.
func sampled(t profile.Usage) model.Usage {
	return model.Usage{CPUMS: t.CPU, SystemMS: t.System, PeakCores: t.PeakCores, GPU: t.Utilisation,
		PeakGPU: t.PeakUtilisation, GPUMemory: jobspec.Bytes(t.Memory), PeakGPUMemory: jobspec.Bytes(t.PeakMemory)}
}

// usageNow returns what a worker that runs here has used by now; false if none does.
func (a *Agent) usageNow(id container.ID) (u api.NodeUsage, runs bool) {
	a.mu.Lock()
	w := a.workers[id]
	runs = w != nil && w.Actual == container.Running && a.Used != nil
	a.mu.Unlock()
	if !runs {
		return u, false
	}
	used, err := a.Used(id)
	for _, part := range a.run.LiveSteps(id) {
		of, err := a.Used(part)
		if err != nil { // it has ended, or uses nothing yet
			continue
		}
		now, gpus := a.jobSteps.Local.GPUUse(part)
		addCgroup(&now, of)
		u.Steps = append(u.Steps, api.NodeStepUsage{Step: part.Step - 1, GPUs: gpus, Usage: now})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u.Usage = sampled(w.used.Usage())
	if err == nil { // it is no sample: a peak is over ten seconds
		u.CPUMS, u.SystemMS = used.CPU.Milliseconds(), used.System.Milliseconds()
	}
	addExtern(&u.Usage, w.Extern)
	u.Memory, u.PeakMemory = jobspec.Bytes(used.Memory), jobspec.Bytes(max(used.PeakMemory, used.Memory))
	return u, true
}

// addCgroup adds what a cgroup tells.
func addCgroup(u *model.Usage, of container.Used) {
	u.CPUMS, u.PeakMemory = of.CPU.Milliseconds(), jobspec.Bytes(max(of.PeakMemory, of.Memory))
	u.SystemMS = min(of.System.Milliseconds(), u.CPUMS)
}

// serveUsage answers GET /v1/usage/{job}.{attempt}.{worker} for controllers: what a worker that runs
// has used by now.
func (a *Agent) serveUsage(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || c.Role != string(pki.Controller) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only controllers may ask here: use rota eff")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	if !ok {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "write /v1/usage/JOB.ATTEMPT.WORKER")
		return
	}
	u, runs := a.usageNow(id)
	if !runs {
		api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, "worker "+id.String()+" does not run here")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(u) // an error means that the client is gone
}
