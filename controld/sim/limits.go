package sim

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// limit gives a configuration the limits of a cluster's file. Of its queues only the default one
// counts, with its nodes and accounts, since all jobs of a trace are in that queue.
func (s *Setup) limit(cfg *cluster.Config) {
	if s.Limits == nil {
		return
	}
	for name, u := range s.Limits.Users {
		if u.Limit == nil {
			continue // it only has a default account, and a trace names the accounts
		}
		if cfg.Users == nil {
			cfg.Users = map[string]cluster.UserRules{}
		}
		cfg.Users[name] = cluster.UserRules{Limit: u.Limit}
	}
	for name, a := range s.Limits.Accounts {
		if cfg.Accounts == nil {
			cfg.Accounts = map[string]cluster.Account{}
		}
		own := cfg.Accounts[name]
		own.Parent, own.Limit = a.Parent, a.Limit
		for user, terms := range a.Users {
			if own.Users == nil {
				own.Users = map[string]cluster.Terms{}
			}
			own.Users[user] = cluster.Terms{Limit: terms.Limit}
		}
		cfg.Accounts[name] = own
	}
	from, to := s.Limits.Queues[model.DefaultQueue], cfg.Queues[model.DefaultQueue]
	to.Limit, to.Users, to.Accounts, to.Nodes, to.Labels = from.Limit, from.Users, from.Accounts, from.Nodes, from.Labels
	cfg.Queues[model.DefaultQueue] = to
}

// deny notes a job that the cluster refuses when it is submitted, as it would refuse its user. It
// reports whether the error is such a refusal; the run goes on without the job.
func (e *engine) deny(j *trace.Job, err error) bool {
	var refused *model.SpecError
	var at *model.JobError
	if e.setup.Limits == nil || !errors.As(err, &refused) {
		return false
	}
	if errors.As(err, &at) {
		err = at.Err
	}
	e.denied = append(e.denied, fmt.Sprintf("%s: %v", j.ID, err))
	return true
}

// admits asks the state whether it would take jobs of an owner. If limits can refuse a job, this is
// asked before a job counts as one of the run.
func (e *engine) admits(j *trace.Job, spec *jobspec.Job) (bool, error) {
	if e.setup.Limits == nil {
		return true, nil
	}
	err := e.state.Admits(fsm.SubmitJobs{Owner: model.Identity{User: j.User}, Jobs: []*jobspec.Job{spec}, Unlimited: true})
	if err == nil || e.deny(j, err) {
		return err == nil, nil
	}
	return false, fmt.Errorf("submit job %s: %w", j.ID, err)
}

// admitsSearch asks the state whether it would take the jobs of a search as one array.
func (e *engine) admitsSearch(s *search, jobs []*trace.Job) (bool, error) {
	if e.setup.Limits == nil {
		return true, nil
	}
	r := e.newRun(jobs[0])
	spec := e.spec(&r)
	s.arrayOf(spec)
	admitted, err := e.admits(jobs[0], spec)
	if err == nil && !admitted {
		for _, j := range jobs[1:] {
			e.denied = append(e.denied, j.ID+": as "+jobs[0].ID+", in one array with it")
		}
	}
	return admitted, err
}
