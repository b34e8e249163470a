package controld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
)

// follows has a member follow replacements of the authority until the test ends or it is called.
func follows(t *testing.T, c *pki.Credential, servers []*running) (stop func()) {
	t.Helper()
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addrs.HTTP)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = api.FollowAuthority(ctx, c, func() []string { return addrs }, api.AuthorityEveryFast/4, api.Options{},
			slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// onDisk is the credential of a controller as its files are now.
func onDisk(t *testing.T, s *running) *pki.Credential {
	t.Helper()
	c, err := pki.Load(pki.Dir(s.cfg.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// joins has a machine join with a token.
func joins(t *testing.T, at *running, token *api.JoinToken, name string) *pki.Credential {
	t.Helper()
	parsed, err := pki.ParseToken(token.Token)
	if err != nil {
		t.Fatal(err)
	}
	dir := pki.Dir(t.TempDir())
	if _, err := api.Join(t.Context(), at.addrs.HTTP, parsed, pki.Node, name, dir); err != nil {
		t.Fatalf("%s joins: %v", name, err)
	}
	c, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// speaks has a member ask a controller for something.
func speaks(t *testing.T, c *pki.Credential, at *running) error {
	t.Helper()
	client, err := api.DialWith(at.addrs.HTTP, api.Options{TLS: c.Client(pki.Controller)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Authority(t.Context())
	return err
}

// stolenBy is a controller's credential that a machine with the old authority's key has made.
func stolenBy(t *testing.T, old *pki.Credential) *pki.Credential {
	t.Helper()
	dir := pki.Dir(t.TempDir())
	if err := old.Issue(dir, pki.Controller, "c1", nil); err != nil {
		t.Fatal(err)
	}
	c, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTheAuthorityIsReplaced replaces the authority of a cluster that works. It notices a member or a
// controller that is locked out, one that was down over a phase or a leader that goes between two, a request
// or a token that fails meanwhile, a machine that gets a certificate although its own was revoked, an old
// authority that goes while a machine needs it, and one that still counts when it is gone.
func TestTheAuthorityIsReplaced(t *testing.T) {
	servers := startThree(t, nil)
	leader, others := leaderOf(t, servers)
	addr := leader.addrs.HTTP
	all := strings.Join([]string{servers[0].addrs.HTTP, servers[1].addrs.HTTP, servers[2].addrs.HTTP}, ",")
	old := onDisk(t, leader)
	member, login := machineOf(t, addr, pki.Node, "n1"), machineOf(t, addr, pki.Login, "l1")
	lateMember, expelled := machineOf(t, addr, pki.Node, "n2"), machineOf(t, addr, pki.Node, "n3")
	node, late := newNode(t, addr, "n1", 1), newNode(t, addr, "n2", 1)
	node.c = dialAs(t, all, model.Identity{}, member)
	node.run(t.Context())
	if _, err := late.c.Register(t.Context(), "n2", api.RegisterRequest{Node: late.node}); err != nil {
		t.Fatal(err)
	}
	follows(t, member, servers)
	follows(t, login, servers)
	admin := leader.client(user(0)) // of the controller's own machine
	jobs := dialAs(t, all, user(1000), login)
	works := func(when string) {
		t.Helper()
		if _, err := jobs.Submit(t.Context(), "", job("meanwhile")); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	tokenOf := func() *api.JoinToken {
		t.Helper()
		token, err := admin.CreateJoinToken(t.Context(), "node")
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	if _, err := admin.Revoke(t.Context(), "node", "n3"); err != nil {
		t.Fatal(err)
	}
	before := tokenOf()
	others[0].stop() // it is down when the replacement begins
	var p *api.Problem
	if _, err := admin.FinishAuthority(t.Context()); !errors.As(err, &p) || p.Status != 409 {
		t.Errorf("the end of no replacement: %v", err)
	}
	eventually(t, "refusal of a user", func() error {
		if _, err := jobs.ReplaceAuthority(t.Context()); !errors.As(err, &p) || p.Status != 403 {
			return fmt.Errorf("it is answered with %w", err)
		}
		return nil
	})
	eventually(t, "a replacement", func() error { // the leader may have changed with the end of the other controller
		two := []*running{leader, others[1]}
		leader, _ = leaderOf(t, two)
		others[1] = two[1-slices.Index(two, leader)]
		admin = leader.client(user(0))
		a, err := admin.ReplaceAuthority(t.Context())
		if err == nil && a.Phase != "trusted" {
			t.Errorf("%+v", a)
		}
		return err
	})
	works("trusted")
	phase := func(want string, lacking ...string) {
		t.Helper()
		eventually(t, "phase "+want, func() error {
			cl, _, err := jobs.Cluster(t.Context())
			if err != nil {
				return err
			}
			a := cl.Authority
			if a == nil {
				a = &api.AuthorityChange{}
			}
			if a.Phase != want || !slices.Equal(a.Lacking, lacking) {
				return fmt.Errorf("%+v; n1 has a certificate of %s and l1 of %s, in the beginning %s", a, member.Issuer(),
					login.Issuer(), old.Issuer())
			}
			return nil
		})
	}
	phase("trusted", "controller/"+others[0].cfg.Name)
	if joined := joins(t, leader, before, "n5"); joined.Authorities() != 2 {
		t.Errorf("a machine that joins trusts %d authorities", joined.Authorities())
	}
	leader.stop() // which has made the key
	servers = []*running{start(t, leader.cfg), start(t, others[0].cfg), others[1]}
	works("another leader")
	phase("issues", "node/n2")
	leads := func() *running { // asked by a member that follows
		t.Helper()
		cl, _, err := jobs.Cluster(t.Context())
		i := slices.IndexFunc(servers, func(s *running) bool { return err == nil && s.cfg.Name == cl.Leader })
		if i < 0 {
			t.Fatalf("no leader: %+v, %v", cl, err)
		}
		return servers[i]
	}
	leader = leads()
	admin = leader.client(user(0))
	works("issues")
	if err := speaks(t, expelled, leader); err == nil {
		t.Error("a machine whose certificate was revoked is listened to")
	}
	if joined := joins(t, servers[1], tokenOf(), "n6"); joined.Authorities() != 2 || joined.Issuer() == old.Issuer() {
		t.Error("a machine that joins has a certificate of the old authority")
	}
	if _, err := admin.ReplaceAuthority(t.Context()); !errors.As(err, &p) || p.Status != 409 {
		t.Errorf("a second replacement beside the first: %v", err)
	}
	stopLate := follows(t, lateMember, servers) // it has only known the old authority
	phase("")
	stopLate()
	works("done")
	for _, s := range servers {
		eventually(t, "new authority alone at "+s.cfg.Name, func() error {
			c := onDisk(t, s)
			if c.Authorities() != 1 || c.Anchor() == old.Anchor() || c.Issuer() != c.Anchor() || c.Authority() == nil ||
				slices.Equal(c.GossipKeys()[0], old.GossipKeys()[0]) {
				return fmt.Errorf("%d authorities, issuer %s", c.Authorities(), c.Issuer())
			}
			return nil
		})
		known(t, s.addrs, pki.Dir(s.cfg.DataDir))
		if err := speaks(t, stolenBy(t, old), s); err == nil {
			t.Errorf("%s listens to a machine with the old authority's key", s.cfg.Name)
		}
	}
	for _, c := range []*pki.Credential{member, login, lateMember} {
		if c.Issuer() != onDisk(t, leader).Anchor() {
			t.Errorf("%s has a certificate of %s", c.Member, c.Issuer())
		}
	}
	// Again, with a machine that does not come and an admin that does not wait for it.
	jobs = dialAs(t, all, user(1000), login) // phases are so short here that connections of two authorities ago are idle
	leader = leads()
	admin = leader.client(user(0))
	eventually(t, "another replacement", func() error {
		_, err := admin.ReplaceAuthority(t.Context())
		return err
	})
	phase("issues", "node/n2")
	eventually(t, "certificates of the members that follow", func() error {
		if next := onDisk(t, leader).Issuer(); member.Issuer() != next || login.Issuer() != next {
			return errors.New("one has none yet")
		}
		cl, _, err := admin.Cluster(t.Context()) // as the leader has seen them
		if err == nil && !slices.Equal(cl.Authority.Lacking, []string{"node/n2"}) {
			err = fmt.Errorf("%+v", cl.Authority)
		}
		return err
	})
	eventually(t, "the end by an admin", func() error {
		a, err := admin.FinishAuthority(t.Context())
		if err == nil && !slices.Equal(a.Lacking, []string{"node/n2"}) {
			t.Errorf("%+v", a)
		}
		return err
	})
	phase("")
	works("done again")
	for _, s := range servers {
		eventually(t, "the end of the old authority at "+s.cfg.Name, func() error {
			if err := speaks(t, lateMember, s); err == nil {
				return errors.New("it listens to a member of the old authority")
			}
			return speaks(t, member, s)
		})
		known(t, s.addrs, pki.Dir(s.cfg.DataDir))
	}
	leader.stop()
	works("after the leader has gone")
	start(t, leader.cfg)
}
