package present

import (
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// suspendedMS is for how long an attempt was suspended, in ms, until it ended or until now.
func suspendedMS(a *model.Attempt, now model.Instant) int64 {
	if a.Ended.At != 0 {
		now = a.Ended.At
	}
	return a.SuspendedMS(now)
}

// suspendedGPUSeconds is for how long the GPUs that a job asks for did without it by now, in
// seconds of one GPU.
func suspendedGPUSeconds(j *model.Job, now model.Instant) int64 {
	ms := j.Ledger.SuspendedMS
	if a := j.Live(); a != nil && a.Suspended() {
		for i := range a.Workers {
			if w := &a.Workers[i]; !w.State.Final() {
				ms += model.GPUTime(int64(max(0, now-a.Switch.Since)), j.RequestOf(i).Active.GPUs)
			}
		}
	}
	return ms / 1000
}

// addSuspension says why a live attempt pauses.
func addSuspension(out *api.Attempt, v *state.View, j *model.Job, a *model.Attempt) {
	if v == nil || a != j.Live() || a.Stop != nil || !a.Suspended() && !a.Suspending() {
		return
	}
	out.Suspension = &api.Suspension{Cause: a.Switch.Cause, For: a.Switch.For}
	if a.Suspended() {
		out.Suspension.Since = wallOf(v, a.Switch.Since)
	}
}

// trials lists what was tried with an attempt, and what is being tried.
func trials(a *model.Attempt) (list []api.Trial) {
	for i := range a.Trials {
		list = append(list, trial(&a.Trials[i]))
	}
	if p := a.Packing; p != nil && p.With != 0 {
		list = append(list, api.Trial{What: model.TrialPack, With: p.With, ExpectedGain: p.Expected})
	}
	return list
}

func trial(t *model.Trial) api.Trial {
	return api.Trial{What: t.What, With: t.With, ExpectedGain: t.Expected, MeasuredGain: t.Measured, Undone: t.Undone}
}

// addLoad fills in the load of a node: the requests of its jobs, suspended ones included, relative
// to its GPUs. These are the height and affinity of Gandiva (Xiao et al., OSDI 2018, section 4.1).
// Jobs that are together on a GPU count once, as the scheduler counts them. The node's jobs and
// GPUs are filled in before.
func addLoad(out *api.Node, workers []state.DesiredWorker) {
	var all int64
	widths, sets := map[model.JobID]int64{}, map[model.JobID]bool{}
	for _, w := range workers {
		gpus := w.Job.RequestOf(w.Worker).Active.GPUs
		if set := w.Job.Live().SetOf(); set == 0 || !sets[set] {
			sets[set] = true
			all += gpus
		}
		widths[w.Job.ID] += gpus
		out.Affinity = max(out.Affinity, WholeGPUs(widths[w.Job.ID]))
		if a := w.Job.Live(); a.Suspended() {
			addSuspended(out, w.Job.ID, w.Job.Holds(a, w.Worker).Resident)
		}
	}
	if n := int64(len(out.GPUs)); n > 0 {
		out.Load = (all + n - 1) / n
		out.Height = WholeGPUs(out.Load)
	}
}

func addSuspended(out *api.Node, id model.JobID, keeps model.Vector) {
	i := slices.IndexFunc(out.Suspended, func(s api.SuspendedJob) bool { return s.Job == id })
	if i < 0 {
		i = len(out.Suspended)
		out.Suspended = append(out.Suspended, api.SuspendedJob{Job: id})
	}
	out.Suspended[i].Memory += keeps.Memory
}

// WholeGPUs rounds thousandths up.
func WholeGPUs(thousandths int64) int { return int((thousandths + milli - 1) / milli) }

// Thousandths is an amount of GPUs that are no whole ones, 0 for whole ones.
func Thousandths(gpus int64) int64 {
	if gpus%milli == 0 {
		return 0
	}
	return gpus
}

// Shares reports whether the height of nodes matters: jobs may share nodes, or one is suspended.
func Shares(v *state.View) bool { return v.Config().Shares() || v.AnySuspended() }
