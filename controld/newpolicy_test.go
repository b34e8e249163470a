package controld

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
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
	s.schedulesBy(model.NewPolicy)
	s.stop()
	s.cfg.Cluster = said(func(c *model.Config) { c.LeaseMS = 77_000 })
	again := start(t, s.cfg)
	again.schedulesBy(model.NewPolicy)
	c := again.client(user(1000))
	eventually(t, "the lease of the file", func() error {
		cfg, _, err := c.Config(t.Context(), api.Read{})
		if err == nil && (cfg.LeaseMS != 77_000 || cfg.Policy.Name != model.NewPolicy) {
			return fmt.Errorf("lease %d, policy %q", cfg.LeaseMS, cfg.Policy.Name)
		}
		return err
	})
}

// said is a configuration that a file describes. It names no policy unless change does.
func said(change func(*model.Config)) *model.Config {
	cfg := model.DefaultConfig()
	change(&cfg)
	return &cfg
}
