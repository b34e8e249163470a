package controld

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// trialSubmit submits a job to a fork of the state that nobody else sees, and returns what it is then and the id that the job would get.
func (x *exchange) trialSubmit(owner cluster.Identity, job *jobspec.Job) (*cluster.View, cluster.JobID, error) {
	state := cluster.Fork(x.view)
	entry := cluster.Entry{Command: cluster.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{job}}}
	entry.At, entry.Wall = x.d.clock.now(x.view), wallNow()
	result, err := state.Apply(state.Index()+1, entry)
	if err != nil {
		return nil, 0, err
	}
	ids, ok := result.([]cluster.JobID)
	if !ok || len(ids) != 1 {
		return nil, 0, fmt.Errorf("plan: the state answered with a %T", result)
	}
	return state.View(), ids[0], nil
}
