package controld

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// schedulesBy waits until a controller says that its cluster is of the latest version and schedules
// by a policy.
func (s *running) schedulesBy(policy string) {
	s.t.Helper()
	c := s.client(user(1000))
	eventually(s.t, "policy "+policy, func() error {
		cl, _, err := c.Cluster(s.t.Context())
		if err == nil && (cl.Version != fsm.LatestVersion || cl.Policy != policy) {
			return fmt.Errorf("version %d, policy %s", cl.Version, cl.Policy)
		}
		return err
	})
}

// TestANewClusterHasThePolicyOfNewOnes also after it was started again, and whatever its file says
// of other things.
func TestANewClusterHasThePolicyOfNewOnes(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.schedulesBy(cluster.NewPolicy)
	s.stop()
	s.cfg.Cluster = said(func(c *cluster.Config) { c.LeaseMS = 77_000 })
	again := start(t, s.cfg)
	again.schedulesBy(cluster.NewPolicy)
	c := again.client(user(1000))
	eventually(t, "the lease of the file", func() error {
		cfg, _, err := c.Config(t.Context(), api.Read{})
		if err == nil && (cfg.LeaseMS != 77_000 || cfg.Policy.Name != cluster.NewPolicy) {
			return fmt.Errorf("lease %d, policy %q", cfg.LeaseMS, cfg.Policy.Name)
		}
		return err
	})
}

// said is a configuration that a file describes. It names no policy unless change does.
func said(change func(*cluster.Config)) *cluster.Config {
	cfg := cluster.DefaultConfig()
	change(&cfg)
	return &cfg
}

// TestPoliciesOfTheSimulator: a new cluster is refused a policy that only serves comparisons, and one
// that has had it since an earlier version starts with it.
func TestPoliciesOfTheSimulator(t *testing.T) {
	las := said(func(c *cluster.Config) { c.Policy.Name = "las" })
	refused := controller(t, "c1")
	refused.Cluster = las
	makeMember(t, refused)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := Run(ctx, refused); err == nil || !strings.Contains(err.Error(), "rota sim --policy las") {
		t.Errorf("a new cluster with policy las: %v", err)
	}
	now := cluster.Policies
	cluster.Policies = append(slices.Clone(now), "las") // as an earlier version had them
	cfg := controller(t, "c2")
	cfg.Cluster = las
	s := start(t, cfg)
	s.schedulesBy("las")
	s.stop()
	cluster.Policies = now
	again := start(t, s.cfg)
	again.schedulesBy("las")
	c := again.client(user(0))
	next := said(func(c *cluster.Config) { c.Policy.Name = "easy" })
	_, err := c.SetConfig(t.Context(), api.ConfigRequest{Config: next})
	if err == nil || !strings.Contains(err.Error(), "rota sim --policy easy") {
		t.Errorf("the cluster is given another one: %v", err)
	}
}
