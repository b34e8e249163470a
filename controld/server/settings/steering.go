package settings

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// getSched answers GET /v1/sched: what operators have told the scheduler.
func getSched(x *exchange.Exchange) (*api.Sched, error) {
	return &api.Sched{Settings: append([]api.SchedSetting{}, present.Steering(x.View)...)}, nil
}

// steer answers POST /v1/sched.
func (h *Handlers) steer(x *exchange.Exchange, req *api.SchedRequest) (*api.Sched, error) {
	x.About.Object = req.What
	switch {
	case !steering.Switch(req.What).Known():
		return nil, problem.Invalid("%q is not a switch of the scheduler: write one of %v", req.What, steering.Switches)
	case len(req.Reason) > exchange.MaxReason:
		return nil, problem.Invalid("the reason has %d bytes, at most %d are allowed", len(req.Reason), exchange.MaxReason)
	case !req.On && req.Reason != "":
		return nil, problem.Invalid("a reason can be given only when a switch is turned on")
	}
	if _, err := x.Propose(fsm.Steer{What: steering.Switch(req.What), On: req.On, By: x.Caller.User.User,
		Reason: req.Reason}); err != nil {
		return nil, err
	}
	h.Log.Info("scheduler steered", "what", req.What, "on", req.On, "by", x.Caller.User.User, "reason", req.Reason)
	return getSched(x)
}

// listDisplacements answers GET /v1/sched/displacements.
func listDisplacements(x *exchange.Exchange) (*api.List[api.Displacement], error) {
	list := exchange.NewList[api.Displacement]("DisplacementList", x.View)
	for _, d := range x.View.Displacements() {
		list.Items = append(list.Items, present.Displacement(&d))
	}
	return list, nil
}
