package controld

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/member"
)

// admit adds controllers that gossip knows and the log does not as voters. It runs on the leader. A voter that cannot do its part is worse than
// none, since it takes a majority of more to do without it: so each is met before it is added.
func (d *daemon) admit(ctx context.Context) error {
	for {
		changed := d.peersChanged.wait()
		d.admitOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(5 * time.Second): // one that could not be added is tried again
		}
	}
}

func (d *daemon) admitOnce(ctx context.Context) {
	known := map[string]string{}
	for _, m := range d.replica.Members() {
		known[m.Name] = m.Addr
	}
	for _, p := range d.controllers() {
		addr, ok := known[p.Name]
		if addr == p.Raft {
			continue
		}
		if !ok && len(known) >= maxControllers {
			d.log.Warn("controller not added: a cluster has at most five", "controller", p.Name)
			continue
		}
		if err := d.fit(ctx, p); err != nil {
			d.log.Warn("controller not added", "controller", p.Name, "error", err)
			continue
		}
		if err := d.replica.AddVoter(ctx, consensus.Member{Name: p.Name, Addr: p.Raft}); err != nil {
			d.log.Warn("controller not added", "controller", p.Name, "error", err)
			continue
		}
		known[p.Name] = p.Raft
		d.log.Info("controller added", "controller", p.Name, "raft", p.Raft)
	}
}

// meetTimeout is how long a controller may take to show itself.
const meetTimeout = 3 * time.Second

// meet connects to where a controller says that its log is, which shows that it can be reached there and is of this cluster's key or account,
// and asks what it has.
func (d *daemon) meet(ctx context.Context, p member.Peer) (replicaState, error) {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	c, err := d.link.Dial(ctx, "tcp", p.Raft)
	if err != nil {
		return replicaState{}, fmt.Errorf("its log at %s: %w", p.Raft, err)
	}
	if err := c.Close(); err != nil {
		return replicaState{}, err
	}
	s, err := d.stateOf(ctx, p)
	if err == nil && s.Name != p.Name {
		err = fmt.Errorf("at %s answers %q", p.HTTP, s.Name)
	}
	return s, err
}

// fit returns why a controller cannot be a voter of this cluster, or nil.
func (d *daemon) fit(ctx context.Context, p member.Peer) error {
	s, err := d.meet(ctx, p)
	if err != nil {
		return err
	}
	if version := d.machine.view.Load().Config().Version; max(1, s.Knows) < version {
		return fmt.Errorf("it knows cluster version %d and this cluster has %d: install the version that the others run", s.Knows, version)
	}
	if ours := d.replica.Members(); s.HasState && len(s.Voters) > 0 && !slices.ContainsFunc(s.Voters, func(v consensus.Member) bool {
		return slices.Contains(ours, v)
	}) {
		return errors.New("it has the log of another cluster: give the two clusters different keys, or move its data directory away to have it join this one")
	}
	return nil
}

// removeController answers POST /v1/controllers/{name}/remove, for operators. A voter that is gone for good counts on: the majority stays that of
// all voters, and a sixth is not added. One that is there would be added again.
func removeController(x *exchange) (any, error) {
	name := x.r.PathValue("name")
	_, seen := x.d.controller(name)
	switch voter := slices.ContainsFunc(x.d.replica.Members(), func(m consensus.Member) bool { return m.Name == name }); {
	case !x.admin():
		return nil, denied("only operators and root may remove controllers")
	case !voter:
		return nil, notFound("there is no controller %q that votes", name)
	case seen || name == x.d.cfg.Name:
		return nil, wrongState("controller %s is up: stop it first, or it would be added again", name)
	}
	if err := x.d.replica.Remove(x.ctx(), name); err != nil {
		return nil, err
	}
	x.d.log.Info("controller removed", "controller", name, "by", x.caller.User.User)
	return getCluster(x)
}
