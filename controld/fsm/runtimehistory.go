package fsm

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// recordRuntime takes in for how long a best-effort job has run that is over. What a node
// has ended says nothing about the job.
func (s *State) recordRuntime(j *model.Job) {
	if j.Class == jobspec.TE || j.Attempt == 0 || j.Children != nil || j.State == model.NodeFailed || j.State == model.BootFailed {
		return
	}
	pasts := s.ownRuntimeHistory()
	kinds, first := estimate.KindsOfJob(j)
	ran, near := j.RuntimeOf(j.Attained()), 0
	for i := len(kinds) - 1; i >= first; i-- { // the widest first: the narrowest is the last to be forgotten
		near = pasts.Add(near, &kinds[i], ran, s.epoch)
	}
}

// ownRuntimeHistory returns for how long jobs have run, ready to be written.
func (s *State) ownRuntimeHistory() *estimate.RuntimeHistory {
	if s.runtimeEpoch == s.epoch && s.v.statistics != nil && s.v.statistics.Runtimes != nil {
		return s.v.statistics.Runtimes
	}
	l, next := s.ownStatistics(), &estimate.RuntimeHistory{}
	if l.Runtimes != nil {
		next.List, next.Used = slices.Clone(l.Runtimes.List), l.Runtimes.Used
	}
	l.Runtimes, s.runtimeEpoch = next, s.epoch
	return next
}

// PredictRemaining returns how long it takes by the cluster's history to bring a job to its end that has run for so many ms: the least time that is spent
// for each of its kind that ends, if each gets up to some bound chosen for that. It is the reciprocal of Gittins' index: little for a job that will
// probably be over soon. The narrowest kind speaks of which enough are known that came so far. False: there is none.
func (v *View) PredictRemaining(j *model.Job, ran int64) (int64, bool) {
	if v.statistics == nil || v.statistics.Runtimes == nil {
		return 0, false
	}
	kinds, first := estimate.KindsOfJob(j)
	for i := first; i < len(kinds); i++ {
		if at, known := v.statistics.Runtimes.Find(&kinds[i]); known {
			if price, known := v.statistics.Runtimes.List[at].RemainingCost(ran); known {
				return price, true
			}
		}
	}
	return 0, false
}

// checkRuntimeHistory says whether what is known of how long jobs ran is kept as it should be.
func (s *State) checkRuntimeHistory() error {
	if s.v.statistics == nil || s.v.statistics.Runtimes == nil {
		return nil
	}
	return s.v.statistics.Runtimes.Check()
}
