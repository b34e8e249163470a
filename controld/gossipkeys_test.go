package controld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/member"
)

// gossips has the member with a credential take part in the gossip of a cluster.
func gossips(t *testing.T, c *pki.Credential, at string) *member.List {
	t.Helper()
	l, err := member.Open(member.Config{Name: c.Member.Name, Addr: "127.0.0.1:0", Join: []string{at}, Credential: c,
		Fast: true, Meta: member.Meta{Role: member.Noded, Cluster: c.Member.Cluster}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := l.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestTheKeyOfTheGossipIsReplaced notices a controller or node that does not get the new key, one that was
// down while it changed and is lost, a job that cannot be submitted meanwhile, and a node whose
// certificates were revoked and that gets the new key.
func TestTheKeyOfTheGossipIsReplaced(t *testing.T) {
	servers := startThree(t, nil)
	leader, others := leaderOf(t, servers)
	at := leader.addrs.Gossip
	machine := func(name string) *pki.Credential { return machineOf(t, leader.addrs.HTTP, pki.Node, name) }
	node, late, expelled := machine("n1"), machine("n2"), machine("n3")
	old := node.GossipKeys()[0]
	gossips(t, node, at)
	admin := leader.client(user(0))
	if _, err := admin.Revoke(t.Context(), "node", "n3"); err != nil {
		t.Fatal(err)
	}
	if k, err := admin.RotateGossipKey(t.Context()); err != nil || k.Number != 1 || k.Phase != "installed" {
		t.Fatalf("%+v, %v", k, err)
	}
	var p *api.Problem
	if _, err := admin.RotateGossipKey(t.Context()); !errors.As(err, &p) || p.Status != 409 {
		t.Errorf("a second change beside the first: %v", err)
	}
	if _, err := leader.client(user(1000)).RotateGossipKey(t.Context()); !errors.As(err, &p) || p.Status != 403 {
		t.Errorf("a user changes the key: %v", err)
	}
	others[0].stop()
	if _, err := leader.client(user(1000)).Submit(t.Context(), "meanwhile", job("meanwhile")); err != nil {
		t.Error(err)
	}
	changed := func(keys [][]byte) error {
		if len(keys) != 1 || bytes.Equal(keys[0], old) {
			return fmt.Errorf("it has %d keys, the first of which is the old one: %t", len(keys), bytes.Equal(keys[0], old))
		}
		return nil
	}
	eventually(t, "node with the new key alone", func() error { return changed(node.GossipKeys()) })
	again := start(t, others[0].cfg)
	for _, s := range []*running{leader, others[1], again} {
		eventually(t, "controller with the new key alone", func() error {
			c, err := pki.Load(pki.Dir(s.cfg.DataDir))
			if err != nil {
				return err
			}
			if !bytes.Equal(c.GossipKeys()[0], node.GossipKeys()[0]) {
				return fmt.Errorf("%s has another key than the node", s.cfg.Name)
			}
			return changed(c.GossipKeys())
		})
	}
	gossips(t, late, at)
	stranger := gossips(t, expelled, at)
	eventually(t, "node that was down with the new key", func() error { return changed(late.GossipKeys()) })
	time.Sleep(2 * time.Second) // the other one has asked several times
	if changed(expelled.GossipKeys()) == nil || len(stranger.Peers()) > 0 || len(stranger.Controllers()) > 0 {
		t.Errorf("a node whose certificates were revoked is in the gossip: %v", stranger.Peers())
	}
}
