package server

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// update answers POST /v1/jobs/{id}/update: another time limit, priority, name or comment for a job
// that has not ended.
func update(x *exchange, req *api.UpdateRequest) (*api.ControlResponse, error) {
	r, err := x.jobRef()
	if err != nil {
		return nil, err
	}
	if req.Name != nil && !jobspec.ValidName(*req.Name) {
		return nil, problem.Invalid("%q is not a job's name: it has 1 to 63 letters, digits, '.', '_' and '-', with a "+
			"letter or digit at both ends", *req.Name)
	}
	if req.Comment != nil {
		if err := jobspec.CheckText(*req.Comment, jobspec.MaxComment); err != nil {
			return nil, problem.Invalid("comment: %v", err)
		}
	}
	c := fsm.UpdateJobs{By: x.caller.User.UID, Admin: x.mayOn(partBeyond, r.Job), TimeLimit: req.TimeLimit,
		AddTime: req.AddTime, Priority: req.Priority, Name: req.Name, Comment: req.Comment, IDs: r.Targets()}
	if len(c.IDs) > model.MaxJobsPerCall {
		return nil, problem.Invalid("%q names %d jobs, at most %d are allowed", r.Text, len(c.IDs), model.MaxJobsPerCall)
	}
	items, err := x.control(c)
	if err != nil {
		return nil, err
	}
	if p := items[0].Error; p != nil && len(items) == 1 {
		return nil, x.explainRefusal(p, r, "")
	}
	return &api.ControlResponse{Items: items}, nil
}
