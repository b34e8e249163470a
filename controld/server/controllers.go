package server

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// getCluster answers GET /v1/cluster.
func getCluster(x *exchange) (*api.Cluster, error) {
	cfg := x.view.Config()
	leader, _ := x.s.Replica.Leader()
	out := &api.Cluster{Name: cfg.ClusterName, Leader: leader.Name, Term: x.s.Replica.Term(), Index: x.view.Index(),
		Version:     cfg.Version,
		Policy:      cmp.Or(cfg.Policy.Name, "standard"),
		Steering:    presentSteering(x.view),
		Controllers: []api.Controller{{Name: x.s.Name, HTTP: x.s.HTTP, Raft: x.s.Raft, State: api.ControllerNew}}}
	out.Generation, out.RefusedBy = x.presentGeneration(), x.s.refusing.list()
	if k := presentGossipKey(x.view.Trust()); k.Phase != "" {
		out.GossipKey = k
	}
	if newest := x.view.Chosen().Newest(); newest != nil {
		out.Witnesses = &api.WitnessState{Number: newest.Number, Nodes: newest.Members, InUse: len(x.view.Chosen().Sets)}
		if out.Witnesses.ByLeader = x.s.Replica.Leading(); out.Witnesses.ByLeader {
			out.Witnesses.OutOfTouch = x.s.Touch.Missing(clock.Boot().Milliseconds(), 0, x.view.Chosen())
		}
	}
	out.Authority = x.presentAuthority()
	for _, p := range x.s.Peers.All() {
		out.Controllers = append(out.Controllers, api.Controller{Name: p.Name, HTTP: p.HTTP, Raft: p.Raft,
			State: api.ControllerNew})
	}
	for _, m := range x.s.Replica.Learners() {
		if i := slices.IndexFunc(out.Controllers, func(c api.Controller) bool { return c.Name == m.Name }); i >= 0 {
			out.Controllers[i].State = api.ControllerLearner
		}
	}
	for _, m := range x.s.Replica.Members() {
		i := slices.IndexFunc(out.Controllers, func(c api.Controller) bool { return c.Name == m.Name })
		if i < 0 { // a voter that gossip does not know is down
			i = len(out.Controllers)
			out.Controllers = append(out.Controllers, api.Controller{Name: m.Name, Raft: m.Addr})
		}
		out.Controllers[i].Voter, out.Controllers[i].State = true, api.ControllerVoter
		if _, lost := x.s.Replica.LostItsLog(m); lost || m.Name == x.s.Name && m.Log != x.s.Replica.Self().Log {
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
func removeController(x *exchange) (*api.Cluster, error) {
	name := x.r.PathValue("name")
	_, seen := x.s.Peers.Find(name)
	members := slices.Concat(x.s.Replica.Members(), x.s.Replica.Learners())
	switch known := slices.ContainsFunc(members, func(m consensus.Member) bool { return m.Name == name }); {
	case !known:
		return nil, problem.NotFound("there is no controller %q that votes", name)
	case seen || name == x.s.Name:
		return nil, problem.WrongState("controller %s is up: stop it first, or it would be added again", name)
	}
	if err := x.s.Replica.Remove(x.ctx(), name); err != nil {
		return nil, err
	}
	x.s.Log.Info("controller removed", "controller", name, "by", x.caller.User.User)
	return getCluster(x)
}
