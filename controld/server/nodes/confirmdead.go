package nodes

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// confirmDead answers POST /v1/nodes/confirm-dead.
func (h *Handlers) confirmDead(x *exchange.Exchange, req *api.ConfirmDeadRequest) (*api.ConfirmedDead, error) {
	names := slices.Compact(slices.Sorted(slices.Values(req.Nodes)))
	x.About.Object = strings.Join(names, ",")
	switch {
	case len(names) == 0:
		return nil, problem.Invalid("nodes is empty: name the nodes that are dead")
	case len(names) > model.MaxNodes:
		return nil, problem.Invalid("%d nodes, at most %d are allowed", len(names), model.MaxNodes)
	case len(req.Reason) > exchange.MaxReason:
		return nil, problem.Invalid("the reason has %d bytes, at most %d are allowed", len(req.Reason), exchange.MaxReason)
	}
	out := &api.ConfirmedDead{Items: []api.DeadNode{}}
	for _, name := range names {
		n, i := x.View.Node(name)
		switch {
		case n == nil:
			return nil, problem.NotFound("unknown node %q", name)
		case n.State != model.NodeDown:
			return nil, problem.WrongState("node %s is %s: only a node that is down can be confirmed dead; nothing was "+
				"changed", name, n.State)
		}
		dead := api.DeadNode{Name: name, Since: api.At(n.Since.Wall), Jobs: []model.JobID{}}
		for _, w := range x.View.HeldOn(i) {
			if !slices.Contains(dead.Jobs, w.Job) {
				dead.Jobs = append(dead.Jobs, w.Job)
			}
		}
		out.Items = append(out.Items, dead)
	}
	if req.DryRun {
		return out, nil
	}
	by := x.Caller.User.User
	if _, err := x.Propose(fsm.ConfirmDead{Nodes: names, By: by, Reason: req.Reason}); err != nil {
		return nil, err
	}
	h.Log.Warn("nodes confirmed dead", "nodes", names, "by", by, "reason", req.Reason)
	return out, nil
}
