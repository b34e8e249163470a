package server

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// getSched answers GET /v1/sched: what operators have told the scheduler.
func getSched(x *exchange) (*api.Sched, error) {
	return &api.Sched{Settings: append([]api.SchedSetting{}, presentSteering(x.view)...)}, nil
}

// presentSteering lists the switches that are on, nil if there are none.
func presentSteering(v *state.View) []api.SchedSetting {
	var list []api.SchedSetting
	for _, s := range v.Steering().Settings {
		list = append(list, api.SchedSetting{What: string(s.What), By: s.By, Reason: s.Reason, Since: api.At(s.Since.Wall)})
	}
	return list
}

// steer answers POST /v1/sched.
func steer(x *exchange, req *api.SchedRequest) (*api.Sched, error) {
	x.about.object = req.What
	switch {
	case !steering.Switch(req.What).Known():
		return nil, problem.Invalid("%q is no switch of the scheduler: there are %v", req.What, steering.Switches)
	case len(req.Reason) > maxReason:
		return nil, problem.Invalid("the reason has %d bytes, at most %d are allowed", len(req.Reason), maxReason)
	case !req.On && req.Reason != "":
		return nil, problem.Invalid("a reason is for what is turned on")
	}
	if _, err := x.propose(fsm.Steer{What: steering.Switch(req.What), On: req.On, By: x.caller.User.User,
		Reason: req.Reason}); err != nil {
		return nil, err
	}
	x.s.Log.Info("scheduler steered", "what", req.What, "on", req.On, "by", x.caller.User.User, "reason", req.Reason)
	return getSched(x)
}

// listDisplacements answers GET /v1/sched/displacements.
func listDisplacements(x *exchange) (*api.List[api.Displacement], error) {
	list := newList[api.Displacement]("DisplacementList", x.view)
	for _, d := range x.view.Displacements() {
		list.Items = append(list.Items, presentDisplacement(&d))
	}
	return list, nil
}

func presentDisplacement(d *steering.Displacement) api.Displacement {
	return api.Displacement{Job: d.Job, Attempt: d.Attempt, For: d.For, Cause: d.Cause, Workers: d.Workers,
		Grace: d.GraceMS / 1000, LostGPUSeconds: d.LostMS / 1000, Since: api.At(d.Since.Wall)}
}

// steeringOf adds to why a job waits what operators have told the scheduler.
func (x *exchange) steeringOf(j *model.Job, why *api.Why) *api.Why {
	if !j.StillToStart() {
		return why
	}
	why.Steering = presentSteering(x.view)
	for _, d := range x.view.Displacements() {
		if d.For == j.ID {
			why.WouldPreempt = append(why.WouldPreempt, presentDisplacement(&d))
		}
	}
	return why
}
