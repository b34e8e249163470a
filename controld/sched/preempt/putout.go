package preempt

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// PutOut returns the accounts of which a job has waited for longer than any trial-and-error job may
// run since one of them took its room. Until then an account is sure to get back what others have
// borrowed, since they end. After that new ones came in their place.
func PutOut(t *scratch.State) map[string]bool {
	longest := longestTE(t)
	if longest == 0 {
		return nil // trial-and-error jobs have no limit by which to judge
	}
	var out map[string]bool
	for g := range t.View.QueueGroups() {
		if g.Head.Held || g.Head.TE || out[g.Key.Account] {
			continue
		}
		for _, j := range g.Jobs {
			if putOutFor(t, j) > longest && t.Waits(j.ID) {
				if out == nil {
					out = map[string]bool{}
				}
				out[g.Key.Account] = true
				break
			}
		}
	}
	return out
}

// longestTE returns for how long a trial-and-error job may run in any queue, in ms; 0 if one may run
// for ever.
func longestTE(t *scratch.State) int64 {
	var longest jobspec.Seconds
	for _, q := range t.View.Config().Queues {
		if q.TEMaxTime == 0 {
			return 0
		}
		longest = max(longest, q.TEMaxTime)
	}
	return int64(longest) * 1000
}

// putOutFor returns for how long a job has waited since it left for a trial-and-error job of another
// account, in ms.
func putOutFor(t *scratch.State, j *model.Job) int64 {
	n := len(j.Attempts)
	if n == 0 || j.Attempts[n-1].Cause != model.CauseTE {
		return 0
	}
	last := &j.Attempts[n-1]
	if last.Stop != nil {
		if taker := t.View.Job(last.Stop.For); taker != nil && taker.Account == j.Account {
			return 0
		}
	}
	return int64(t.Now - last.Ended.At)
}

// CannotSave reports whether a candidate loses all its work when it leaves: it is the last to go.
func CannotSave(v *Candidate) bool { return v.Saves < 0 }
