package controld

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// schedulesBy waits until a controller says that its cluster is of the latest version and schedules
// by a policy.
func (s *running) schedulesBy(policy string) {
	s.t.Helper()
	c := s.client(user(1000))
	eventually(s.t, "policy "+policy, func() error {
		cl, _, err := c.Cluster(s.t.Context())
		if err == nil && (cl.Version != cluster.LatestVersion || cl.Policy != policy) {
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
