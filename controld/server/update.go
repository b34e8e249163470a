package server

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// update answers POST /v1/jobs/{id}/update: another time limit, priority or name for a job that has
// not ended.
func update(x *exchange) (any, error) {
	r, err := x.jobRef()
	if err != nil {
		return nil, err
	}
	var req api.UpdateRequest
	if err := x.decode(&req); err != nil {
		return nil, err
	}
	if req.Name != nil && !jobspec.ValidName(*req.Name) {
		return nil, problem.Invalid("%q is not a job's name: it has 1 to 63 letters, digits, '.', '_' and '-', with a "+
			"letter or digit at both ends", *req.Name)
	}
	c := cluster.UpdateJobs{By: x.caller.User.UID, Admin: x.admin(), TimeLimit: req.TimeLimit, AddTime: req.AddTime,
		Priority: req.Priority, Name: req.Name}
	c.IDs = r.Targets()
	if len(c.IDs) > cluster.MaxJobsPerCall {
		return nil, problem.Invalid("%q names %d jobs, at most %d are allowed", r.Text, len(c.IDs), cluster.MaxJobsPerCall)
	}
	result, err := x.propose(c)
	if err != nil {
		return nil, err
	}
	each, ok := result.([]cluster.ControlResult)
	if !ok || len(each) != len(c.IDs) {
		return nil, fmt.Errorf("update: the state answered with a %T", result)
	}
	resp := &api.ControlResponse{Items: make([]api.ControlItem, len(each))}
	for i, e := range each {
		resp.Items[i].ID = e.ID
		if e.Err == nil {
			continue
		}
		if resp.Items[i].Error = problem.Filled(problem.Of(e.Err)); len(each) == 1 {
			return nil, x.explainRefusal(resp.Items[i].Error, r, "")
		}
	}
	return resp, nil
}
