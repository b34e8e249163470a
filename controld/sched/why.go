package sched

import (
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/explain"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Explain computes why a job waits, as [Cycle] at now sees it. For a job that does not wait it is
// the reason in the state, and for an unknown id it is empty.
func Explain(v *state.View, now model.Instant, p cluster.Policy, id model.JobID) explain.Explanation {
	return reasonsAt(v, now, p).Explain(id)
}

// Reasons returns a function that says why a job waits. It runs one cycle, and then looks once at
// each distinct request that it is asked about. So listing the whole queue costs little more than
// listing its groups. Not for concurrent use.
func Reasons(v *state.View, now model.Instant, p cluster.Policy) func(model.JobID) model.Reason {
	return reasonsAt(v, now, p).Reason
}

// Shares lists accounts, parents first, each followed by its users, with holdings and shares. It is
// the same for all policies.
func Shares(v *state.View, now model.Instant, p cluster.Policy) []fairshare.Share {
	return fairshare.Shares(v, now, p)
}

// ExplainShare shows how the share of an account is computed, nil for an unknown account.
func ExplainShare(v *state.View, now model.Instant, p cluster.Policy, account string) *fairshare.ShareExplanation {
	return fairshare.ExplainShare(v, now, p, account)
}

func reasonsAt(v *state.View, now model.Instant, p cluster.Policy) *explain.Reasons {
	return reasonsWith(v, now, p, new(memory))
}

func reasonsWith(v *state.View, now model.Instant, p cluster.Policy, m *memory) *explain.Reasons {
	after, answers := decide(v, now, p, v.Steering(), m)
	return explain.New(scratch.New(v, now, p, new(fit.Room)), after, answers)
}
