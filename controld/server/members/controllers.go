package members

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// getCluster answers GET /v1/cluster.
func (h *Handlers) getCluster(x *exchange.Exchange) (*api.Cluster, error) {
	cfg := x.View.Config()
	leader, _ := h.Replica.Leader()
	out := &api.Cluster{Name: cfg.ClusterName, Leader: leader.Name, Term: h.Replica.Term(), Index: x.View.Index(),
		Version:     cfg.Version,
		Policy:      cmp.Or(cfg.Policy.Name, "standard"),
		Steering:    present.Steering(x.View),
		Controllers: []api.Controller{{Name: h.Name, HTTP: h.HTTP, Raft: h.Raft, State: api.ControllerNew}}}
	out.Generation, out.RefusedBy = present.Generation(x.View, h.Replica.Now(x.View)), x.RefusingNodes()
	if k := presentGossipKey(x.View.Trust()); k.Phase != "" {
		out.GossipKey = k
	}
	if newest := x.View.Chosen().Newest(); newest != nil {
		out.Witnesses = &api.WitnessState{Number: newest.Number, Nodes: newest.Members, InUse: len(x.View.Chosen().Sets)}
		if out.Witnesses.ByLeader = h.Replica.Leading(); out.Witnesses.ByLeader {
			out.Witnesses.OutOfTouch = h.Touch.Missing(clock.Boot().Milliseconds(), 0, x.View.Chosen())
		}
	}
	out.Authority = h.presentAuthority(x)
	for _, p := range h.Peers.All() {
		out.Controllers = append(out.Controllers, api.Controller{Name: p.Name, HTTP: p.HTTP, Raft: p.Raft,
			State: api.ControllerNew})
	}
	for _, m := range h.Replica.Learners() {
		if i := slices.IndexFunc(out.Controllers, func(c api.Controller) bool { return c.Name == m.Name }); i >= 0 {
			out.Controllers[i].State = api.ControllerLearner
		}
	}
	for _, m := range h.Replica.Members() {
		i := slices.IndexFunc(out.Controllers, func(c api.Controller) bool { return c.Name == m.Name })
		if i < 0 { // a voter that gossip does not know is down
			i = len(out.Controllers)
			out.Controllers = append(out.Controllers, api.Controller{Name: m.Name, Raft: m.Addr})
		}
		out.Controllers[i].Voter, out.Controllers[i].State = true, api.ControllerVoter
		if _, lost := h.Replica.LostItsLog(m); lost || m.Name == h.Name && m.Log != h.Replica.Self().Log {
			out.Controllers[i].Voter, out.Controllers[i].State = false, api.ControllerNoLog
		}
		out.Controllers[i].Leader = m.Name == leader.Name
	}
	slices.SortFunc(out.Controllers, func(a, b api.Controller) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// removeController answers POST /v1/controllers/{name}/remove. A voter that is gone
// for good still counts: a majority is of all voters, and a sixth is not added. Nor is one that went
// while it caught up. A voter that is up would be added again.
func (h *Handlers) removeController(x *exchange.Exchange) (*api.Cluster, error) {
	name := x.Request.PathValue("name")
	_, seen := h.Peers.Find(name)
	members := slices.Concat(h.Replica.Members(), h.Replica.Learners())
	switch known := slices.ContainsFunc(members, func(m consensus.Member) bool { return m.Name == name }); {
	case !known:
		return nil, problem.NotFound("unknown voting controller %q", name)
	case seen || name == h.Name:
		return nil, problem.WrongState("controller %s is up: stop it first, or it would be added again", name)
	}
	if err := h.Replica.Remove(x.Context(), name); err != nil {
		return nil, err
	}
	h.Log.Info("controller removed", "controller", name, "by", x.Caller.User.User)
	return h.getCluster(x)
}

// internalState answers another controller.
func (h *Handlers) internalState(x *exchange.Exchange) (any, error) {
	key, issuer := h.AuthorityState()
	return peers.State{AuthorityKey: key, Issuer: issuer, Name: h.Name, HTTP: h.HTTP, Raft: h.Raft,
		Gossip:   h.Gossip,
		HasState: h.Replica.HasState(), Log: h.Replica.Self().Log, Applied: h.Replica.Applied(),
		Records: h.History.Last(), Knows: h.Knows,
		Generation: h.Replica.View().Recovery().Generation.String(), Voters: h.Replica.Members()}, nil
}
