package jobs

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// Update answers POST /v1/jobs/{id}/update: another time limit, priority, name or comment for a job
// that has not ended.
func update(x *exchange.Exchange, req *api.UpdateRequest) (*api.ControlResponse, error) {
	r, err := x.JobRef()
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
	c := fsm.UpdateJobs{By: x.Caller.User.UID, Admin: x.MayOn(access.PartBeyond, r.Job), TimeLimit: req.TimeLimit,
		AddTime: req.AddTime, Priority: req.Priority, Name: req.Name, Comment: req.Comment, IDs: r.Targets()}
	if len(c.IDs) > model.MaxJobsPerCall {
		return nil, problem.Invalid("%q names %d jobs, at most %d are allowed", r.Text, len(c.IDs), model.MaxJobsPerCall)
	}
	items, err := proposeControl(x, c)
	if err != nil {
		return nil, err
	}
	if p := items[0].Error; p != nil && len(items) == 1 {
		return nil, explainRefusal(x, p, r, "")
	}
	return &api.ControlResponse{Items: items}, nil
}
